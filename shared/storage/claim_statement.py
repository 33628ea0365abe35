"""The statement that grants leases and moves jobs to RUNNING; `state_changes` says what it promises."""

from __future__ import annotations

import sqlalchemy as sa

from shared.domain.jobs import JobChange
from shared.storage import guards
from shared.storage.rows import unnested

INLINE_INPUT_BYTES_MAX = 64 * 1024
"""Larger inputs, and documents, are fetched by GetSnapshot, so that frames of many leases stay small."""

PUT_BACK_SECONDS = 0.2
"""A refused entry is offered again after this, so that a cause that lasts does not make a busy loop."""
PUT_BACK_REFUSED_SECONDS = 5.0
"""The same for a job that every executor of its type has refused: only a new one can help, and takes seconds
to start."""

CLAIM_COLUMNS = {
    "job_id": "uuid",
    "attempt": "integer",
    "token": "text",
    "session_id": "uuid",
    "incarnation_id": "uuid",
    "executor_name": "text",
    "lease_seconds": "double precision",
    "timeout_seconds": "double precision",
    "grace_seconds": "double precision",
}

# The claim locks in the order of all transactions: all sessions, all jobs, also of those that are refused,
# dispatch rows; the counts ask for all of the one before the first of the next. So it waits for a row only
# where a dispatcher holds it, who waits for nothing. The delete finds nothing if another claim was first. A
# refusal waits for that dispatcher too: the row that it is about to mark as delivered would else stay so,
# with no entry left for it.
CLAIM = sa.text(f"""
with entry as (
    select * from {unnested(CLAIM_COLUMNS, "e")}
),
present as (
    select s.incarnation_id, s.session_id from executor_sessions s
    where (s.incarnation_id, s.session_id) in (select incarnation_id, session_id from entry)
    order by s.incarnation_id for share
),
locked as (
    select j.job_id, j.job_type, j.state, j.attempt, j.cancel_request_time, j.start_by_time, j.refused_by
    from jobs j join entry e using (job_id)
    where (select count(*) from present) >= 0
    order by j.job_id for update of j
),
job as (
    select e.* from locked j join entry e using (job_id)
    where (e.incarnation_id, e.session_id) in (select incarnation_id, session_id from present)
        and {guards.allowed(JobChange.LEASED)}
        and j.attempt = e.attempt - 1
        and j.cancel_request_time is null
        and (j.attempt > 0 or j.start_by_time is null or j.start_by_time > engine_time())
        and e.incarnation_id <> all (j.refused_by)
),
dispatch as (
    delete from outbox o using job
    where o.dedupe_key = format('job.dispatch:%s:%s', job.job_id, job.attempt)
        and o.available_time <= engine_time()
    returning o.aggregate_id as job_id
),
granted as (
    insert into leases (
        job_id, attempt, token, session_id, incarnation_id, executor_name, grant_time, heartbeat_time,
        reprieve_time, deadline_time, lease_seconds, grace_seconds)
    select
        job_id, attempt, token, session_id, incarnation_id, executor_name, t.now, t.now, t.now,
        t.now + (timeout_seconds + grace_seconds) * interval '1 second', lease_seconds, grace_seconds
    from job join dispatch using (job_id) cross join (select engine_time() as now) t
    returning job_id, attempt, token, session_id, grant_time
),
moved as (
    update jobs j set
        state = {guards.target(JobChange.LEASED)}, attempt = granted.attempt, next_attempt_time = null,
        start_time = coalesce(j.start_time, granted.grant_time), progress = 0, progress_message = '',
        event_count = j.event_count + 1
    from granted where j.job_id = granted.job_id
    returning j.*, granted.token, granted.session_id, granted.grant_time
),
event as (
    insert into job_events (job_id, number, kind, state, attempt, event_time)
    select job_id, event_count, 'started', state, attempt, grant_time from moved
),
refused as (
    select o.outbox_id, o.state, case when e.incarnation_id = any (j.refused_by) and not exists (
            select from executor_sessions s
            where j.job_type = any (s.job_types) and s.incarnation_id <> all (j.refused_by))
        then {PUT_BACK_REFUSED_SECONDS} else {PUT_BACK_SECONDS} end as wait_seconds
    from outbox o
    join entry e on o.dedupe_key = format('job.dispatch:%s:%s', e.job_id, e.attempt)
    left join locked j on j.job_id = e.job_id
    where e.job_id not in (select job_id from dispatch) and (select count(*) from locked) >= 0
    for update of o
),
put_back as (
    update outbox o set
        state = 'pending', delivered_time = null,
        available_time = greatest(
            o.available_time, engine_time() + r.wait_seconds * interval '1 second')
    from refused r where o.outbox_id = r.outbox_id and r.state = 'delivered'
)
select
    m.job_id, m.attempt, m.token, m.session_id, m.job_type, m.queue, m.priority, m.input_schema_version,
    m.output_schema_version, m.traceparent, m.run_alone, m.credential_mode, m.credential_id, m.prompt_version,
    m.error_code, m.error_message, m.error_internal,
    case when s.upload_id is null and octet_length(s.input) <= {INLINE_INPUT_BYTES_MAX}
        then s.input end as input,
    octet_length(s.input) as input_bytes, u.upload_id, u.document_bytes, u.sha256, u.media_type, u.file_name
from moved m join snapshots s using (job_id) left join uploads u using (upload_id)
""")
