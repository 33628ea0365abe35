"""The statement that grants leases and moves jobs to RUNNING; `state_changes` says what it promises."""

from __future__ import annotations

import sqlalchemy as sa

from shared.domain.jobs import JobChange
from shared.storage import guards
from shared.storage.batch_counting import counting
from shared.storage.lease_limits import rate_spent, rate_tokens
from shared.storage.rows import unnested

INLINE_INPUT_BYTES_MAX = 64 * 1024
"""Larger inputs, and documents, are fetched by GetSnapshot, so that frames of many leases stay small."""

PUT_BACK_SECONDS = 0.2
"""A refused entry is offered again after this, so that a cause that lasts does not make a busy loop. What is
paused keeps its place: it is not offered before the pause ends. What a limit refuses keeps it, too: in a long
backlog it would else go behind all of its owner's jobs, however old it is."""
PUT_BACK_REFUSED_SECONDS = 5.0
"""The same for a job that every executor of its type has refused: only a new one can help, and takes seconds
to start."""

CLAIM_COLUMNS = {
    "place": "integer",
    "job_id": "uuid",
    "attempt": "integer",
    "token": "text",
    "session_id": "uuid",
    "incarnation_id": "uuid",
    "executor_name": "text",
    "lease_seconds": "double precision",
    "timeout_seconds": "double precision",
    "grace_seconds": "double precision",
    "at_once": "integer",
    "at_once_per_owner": "integer",
    "per_second": "double precision",
}

# A conflict locks the row that is there, and changes nothing. All claims of a limited type meet here, each in
# a transaction's first statement and in the order of the types.
HOLD_LIMITS = sa.text("""
insert into lease_limits (job_type) select * from unnest(cast(:job_types as text[])) as t(job_type) order by 1
on conflict (job_type) do update set job_type = excluded.job_type where false
""")

_PAUSED = """(j.queue in (select name from pauses where kind = 'queue')
    or j.job_type in (select name from pauses where kind = 'job_type'))"""

_ITEMS = counting(source="'waiting'", target="'running'", after="refused")

# What is within the limits is counted, not kept: this claim holds the rows of `lease_limits` of its types, so
# no other one of them is under way. Entries of an owner at its limit take no place of others. The row says
# until when the tokens of a rate are spent, one for each lease; more than a second's worth is never saved up.
_CONTEND = f"""
contender as (
    select job.* from job
    join outbox o on o.dedupe_key = format('job.dispatch:%s:%s', job.job_id, job.attempt)
    where job.limited and o.available_time <= engine_time()
),
held as (
    select l.job_type, l.owner, count(*) as leases from leases l
    where l.limited and l.job_type in (select job_type from contender)
    group by l.job_type, l.owner
),
of_owner as (
    select c.*, coalesce(h.leases, 0) + row_number() over (
        partition by c.job_type, c.owner order by c.priority, c.place) as leases
    from contender c left join held h using (job_type, owner)
),
of_type as (
    select o.job_id, o.job_type, o.at_once, o.per_second,
        row_number() over (partition by o.job_type order by o.priority, o.place) as turn
    from of_owner o where (o.leases <= o.at_once_per_owner) is not false
),
within as (
    select t.job_id from of_type t join lease_limits r using (job_type)
    left join (select job_type, sum(leases) as leases from held group by job_type) h using (job_type)
    where (coalesce(h.leases, 0) + t.turn <= t.at_once) is not false
        and (t.turn <= {rate_tokens("t.per_second", "r.rate_spent_time")}) is not false
),
"""

_SPEND = f"""
spent as (
    update lease_limits r set
        rate_spent_time = {rate_spent("g.per_second", "r.rate_spent_time")}
            + g.leases / g.per_second * interval '1 second'
    from (
        select job_type, per_second, count(*) as leases from dispatch
        where per_second is not null group by job_type, per_second
    ) g where r.job_type = g.job_type
),
"""

_PERMITTED = "and (not job.limited or job.job_id in (select job_id from within))"

_LIMIT_WAIT = "when e.job_id in (select job_id from contender) then 0"


# The claim locks in the order of all transactions: all sessions, all jobs, also of those that are refused,
# dispatch rows; the counts ask for all of the one before the first of the next. So it waits for a row only
# where a dispatcher holds it, who waits for nothing. The delete finds nothing if another claim was first. A
# refusal waits for that dispatcher too: the row that it is about to mark as delivered would else stay so,
# with no entry left for it.
#
# `gate` finds no row, but holds the table: a Pause waits for the claims that began before it, and those that
# begin after it see it.
_STATEMENT = f"""
with entry as (
    select e.*, num_nonnulls(at_once, at_once_per_owner, per_second) > 0 as limited
    from {unnested(CLAIM_COLUMNS, "e")}
),
gate as (
    select from pauses where kind = '' for key share
),
present as (
    select s.incarnation_id, s.session_id from executor_sessions s
    where (s.incarnation_id, s.session_id) in (select incarnation_id, session_id from entry)
    order by s.incarnation_id for share
),
locked as (
    select e.*, j.job_type, j.queue, j.owner, j.priority, j.state, j.attempt as attempts,
        j.cancel_request_time, j.start_by_time, j.refused_by
    from jobs j join entry e using (job_id)
    where (select count(*) from present) >= 0
    order by j.job_id for update of j
),
job as (
    select j.* from locked j
    where (j.incarnation_id, j.session_id) in (select incarnation_id, session_id from present)
        and {guards.allowed(JobChange.LEASED)}
        and j.attempts = j.attempt - 1
        and j.cancel_request_time is null
        and (j.attempts > 0 or j.start_by_time is null or j.start_by_time > engine_time())
        and j.incarnation_id <> all (j.refused_by)
        and not {_PAUSED} and not exists (select from gate)
),
{{contend}}dispatch as (
    delete from outbox o using job
    where o.dedupe_key = format('job.dispatch:%s:%s', job.job_id, job.attempt)
        and o.available_time <= engine_time()
        {{permitted}}
    returning job.*
),
{{spend}}granted as (
    insert into leases (
        job_id, job_type, owner, limited, attempt, token, session_id, incarnation_id, executor_name,
        grant_time, heartbeat_time, reprieve_time, deadline_time, lease_seconds, grace_seconds)
    select
        job_id, job_type, owner, limited, attempt, token, session_id, incarnation_id, executor_name,
        t.now, t.now, t.now,
        t.now + (timeout_seconds + grace_seconds) * interval '1 second', lease_seconds, grace_seconds
    from dispatch cross join (select engine_time() as now) t
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
    select o.outbox_id, o.state, case
        when {_PAUSED} then 0
        when e.incarnation_id = any (j.refused_by) and not exists (
            select from executor_sessions s
            where j.job_type = any (s.job_types) and s.incarnation_id <> all (j.refused_by))
        then {PUT_BACK_REFUSED_SECONDS}
        {{limit_wait}}
        else {PUT_BACK_SECONDS} end as wait_seconds
    from outbox o
    join entry e on o.dedupe_key = format('job.dispatch:%s:%s', e.job_id, e.attempt)
    left join locked j on j.job_id = e.job_id
    where e.job_id not in (select job_id from dispatch) and (select count(*) from locked) >= 0
    for update of o
),
put_back as (
    update outbox o set
        state = 'pending', delivered_time = null,
        available_time = case when r.wait_seconds = 0 then o.available_time
            else greatest(o.available_time, engine_time() + r.wait_seconds * interval '1 second') end
    from refused r where o.outbox_id = r.outbox_id and r.state = 'delivered'
),
{_ITEMS}
select
    m.job_id, m.attempt, m.token, m.session_id, m.job_type, m.queue, m.priority, m.input_schema_version,
    m.output_schema_version, m.traceparent, m.run_alone, m.credential_mode, m.credential_id, m.prompt_version,
    m.error_code, m.error_message, m.error_internal,
    case when s.upload_id is null and octet_length(s.input) <= {INLINE_INPUT_BYTES_MAX}
        then s.input end as input,
    octet_length(s.input) as input_bytes, u.upload_id, u.document_bytes, u.sha256, u.media_type, u.file_name
from moved m join snapshots s using (job_id) left join uploads u using (upload_id)
"""


def _claim(*, contend: str = "", permitted: str = "", spend: str = "", limit_wait: str = "") -> sa.TextClause:
    parts = {"contend": contend, "permitted": permitted, "spend": spend, "limit_wait": limit_wait}
    return sa.text(_STATEMENT.format(**parts))


CLAIM = _claim()
"""For types without limits, who pay nothing for those of others."""

CLAIM_WITHIN_LIMITS = _claim(contend=_CONTEND, permitted=_PERMITTED, spend=_SPEND, limit_wait=_LIMIT_WAIT)
"""For entries of which some are of types with limits; in a transaction that holds these."""
