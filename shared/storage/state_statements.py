"""The only statements that write a job's state; `state_changes` says what they promise."""

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

END_COLUMNS = {
    "job_id": "uuid",
    "token": "text",
    "change": "text",
    "delay_seconds": "double precision",
    "outcome": "text",
    "error_code": "text",
    "error_message": "text",
    "error_internal": "text",
    "suspect": "boolean",
    "refused": "boolean",
    "forced": "boolean",
    "failures": "integer",
    "internal_failures": "integer",
    "losses": "integer",
    "give_backs": "integer",
    "report_hash": "text",
    "answer": "text",
    "output": "bytea",
    "output_hash": "text",
    "artifact_count": "integer",
}

_OUTGOING = """
    insert into outbox (
        event_type, aggregate_type, aggregate_id, dedupe_key, payload, create_time, available_time)
    select
        'job.' || lower(state), 'job', job_id, format('job.%s:%s:%s', lower(state), job_id, attempt),
        jsonb_strip_nulls(jsonb_build_object(
            'job_id', job_id, 'job_type', job_type, 'attempt', attempt, 'state', state,
            'error_code', case when state = 'FAILED' then error_code end)),
        finish_time, finish_time
    from moved where finish_time is not null
"""

# What a job that was cancelled had failed of before is not why it ended; its attempts keep that.
_WITH_ERROR = "e.outcome <> 'succeeded' and e.change is distinct from 'cancelled'"

# An attempt's end without success is an event of its own, before the one that tells what follows.
END = sa.text(f"""
with ending as (
    select e.*, t.now from {unnested(END_COLUMNS, "e")} cross join (select engine_time() as now) t
),
ended as (
    delete from leases l using ending e where l.job_id = e.job_id and l.token = e.token
    returning l.*
),
attempt as (
    insert into attempts (
        job_id, attempt, token, incarnation_id, executor_name, start_time, end_time, outcome,
        error_code, error_message, error_internal, suspect, report_hash, answer, output)
    select
        l.job_id, l.attempt, l.token, l.incarnation_id, l.executor_name, l.grant_time, e.now, e.outcome,
        e.error_code, e.error_message, e.error_internal, e.suspect, e.report_hash, e.answer, e.output
    from ended l join ending e using (job_id)
),
moved as (
    update jobs j set
        state = {guards.target_by("e.change")},
        finish_time = case when e.change is not null then e.now end,
        next_attempt_time = case when e.change is null then e.now + e.delay_seconds * interval '1 second' end,
        failures = e.failures, internal_failures = e.internal_failures, losses = e.losses,
        give_backs = e.give_backs,
        run_alone = e.suspect or (j.run_alone and e.change is null),
        refused_by = case when e.refused then j.refused_by || l.incarnation_id else j.refused_by end,
        progress = case when e.change = 'succeeded' then 100 else l.progress end,
        progress_message = case when e.change = 'succeeded' then '' else l.progress_message end,
        cancel_forced = j.cancel_forced or (e.forced and coalesce(e.change, '') = 'cancelled'),
        error_code = case when {_WITH_ERROR} then coalesce(e.error_code, j.error_code) end,
        error_message = case when {_WITH_ERROR} then coalesce(e.error_message, j.error_message) end,
        error_internal = case when {_WITH_ERROR} then coalesce(e.error_internal, j.error_internal) end,
        output_hash = e.output_hash, artifact_count = e.artifact_count,
        event_count = j.event_count + case when e.outcome = 'succeeded' then 1 else 2 end
    from ended l join ending e using (job_id)
    where j.job_id = l.job_id and {guards.allowed_by("e.change")}
    returning j.*, e.now, e.outcome, e.change, e.forced, e.error_code as end_code,
        e.error_message as end_message, e.error_internal as end_internal
),
attempt_event as (
    insert into job_events (
        job_id, number, kind, state, attempt, event_time, outcome, error_code, error_message, error_internal)
    select
        job_id, event_count - 1, 'attempt_ended', 'RUNNING', attempt, now, outcome, end_code, end_message,
        end_internal
    from moved where outcome <> 'succeeded'
),
event as (
    insert into job_events (
        job_id, number, kind, state, attempt, event_time, error_code, error_message, error_internal,
        next_attempt_time, forced)
    select
        job_id, event_count, coalesce(change, 'retry_scheduled'), state, attempt, now,
        case when change = 'failed' then error_code end, case when change = 'failed' then error_message end,
        case when change = 'failed' then error_internal end, next_attempt_time,
        forced and coalesce(change, '') = 'cancelled'
    from moved
),
outgoing as ({_OUTGOING}),
dispatch as (
    insert into outbox (
        event_type, aggregate_type, aggregate_id, dedupe_key, payload, create_time, available_time,
        stream, owner, priority, attempt)
    select
        'job.dispatch', 'job', job_id, format('job.dispatch:%s:%s', job_id, attempt + 1),
        jsonb_build_object(
            'job_id', job_id, 'job_type', job_type, 'queue', queue, 'priority', priority,
            'attempt', attempt + 1),
        now, next_attempt_time, stream, owner, priority, attempt + 1
    from moved where change is null
)
select job_id from moved
""")

CANCEL_WAITING = sa.text(f"""
with waiting as (
    select j.job_id from jobs j
    where j.job_id = any(cast(:job_ids as uuid[])) and {guards.allowed(JobChange.CANCELLED)}
        and (not cast(:past_start_by as boolean) or (j.attempt = 0 and j.start_by_time <= engine_time()))
    order by j.job_id for update of j
),
dispatch as (
    delete from outbox o using jobs j, waiting w
    where j.job_id = w.job_id and o.dedupe_key = format('job.dispatch:%s:%s', j.job_id, j.attempt + 1)
    returning o.aggregate_id as job_id
),
moved as (
    update jobs j set
        state = {guards.target(JobChange.CANCELLED)}, finish_time = t.now, next_attempt_time = null,
        cancel_request_time = coalesce(j.cancel_request_time, t.now),
        error_code = cast(:error_code as text), error_message = cast(:error_message as text),
        error_internal = null,
        event_count = j.event_count + 1
    from dispatch d cross join (select engine_time() as now) t
    where j.job_id = d.job_id and {guards.allowed(JobChange.CANCELLED)}
    returning j.*
),
event as (
    insert into job_events (job_id, number, kind, state, attempt, event_time, error_code, error_message)
    select job_id, event_count, 'cancelled', state, attempt, finish_time, error_code, error_message from moved
),
outgoing as ({_OUTGOING})
select job_id from moved
""")
