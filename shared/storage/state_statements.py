"""The statements that end attempts and jobs; `state_changes` says what they promise."""

from __future__ import annotations

import sqlalchemy as sa

from shared.domain.jobs import JobChange
from shared.storage import guards
from shared.storage.batch_counting import counting
from shared.storage.rows import unnested

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
    returning outbox_id
"""

# An attempt that ends leaves its item waiting, or ends it.
_LEASED_ITEMS = counting(
    source="'running'",
    target="""case change when 'succeeded' then 'succeeded' when 'failed' then 'failed'
        when 'cancelled' then 'skipped' else 'waiting' end""",
    told="outgoing",
)
_WAITING_ITEMS = counting(source="'waiting'", target="'skipped'", told="outgoing")

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
        cancel_request_time = case when j.skipping and e.change = 'cancelled'
            then coalesce(j.cancel_request_time, e.now) else j.cancel_request_time end,
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
),
{_LEASED_ITEMS}
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
outgoing as ({_OUTGOING}),
{_WAITING_ITEMS}
select job_id from moved
""")
