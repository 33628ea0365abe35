"""Counts the items of batches in the statements that move their jobs.

Who is authoritative: the counters in a batch's row, which change here and in `batch_changes` only, each time
in the statement that changes the jobs. What is promised: counters, the batch's state, its numbered events and
`batch.finished` become durable together with the change of the jobs, or not at all; so a batch settles in the
transaction that ends its last open item, and never because somebody counted rows. The counters add up to the
batch's size after every event: the database refuses a row in which they don't.

A batch's row is the last that a transaction locks, several in the order of their ids. Two that move items of
one batch meet there; the lock gives the second what the first has left, not what its snapshot shows. A
statement that moves many items of a batch changes its row once.
"""

from __future__ import annotations

from shared.domain.batches import BatchChange
from shared.storage import batch_guards
from shared.storage.batch_tables import COUNTERS

_ENDED = "('succeeded', 'failed', 'skipped')"


def _each(template: str) -> str:
    return ", ".join(template.format(name=name) for name in COUNTERS)


_MOVED = _each(
    "count(*) filter (where target = '{name}') - count(*) filter (where source = '{name}') as {name}"
)

# Items that only start or wait again are no events; those that end are counted one after the other.
_COUNTING = f"""
batch_held as materialized (
    select b.* from batches b where b.batch_id in (select batch_id from item_move)
    order by b.batch_id for update of b
),
batch_moved as (
    select batch_id, {_MOVED}, bool_or(target = 'running') as started,
        count(*) filter (where target in {_ENDED}) as ends
    from item_move group by batch_id
),
batch_counted as (
    select b.batch_id, b.state, {_each("b.{name} + m.{name} as {name}")},
        b.cancel_request_time is not null as cancel_requested,
        m.started and {batch_guards.allowed(BatchChange.STARTED)} as starts, m.ends, engine_time() as now
    from batch_held b join batch_moved m using (batch_id)
),
batch_judged as materialized (
    select c.*, case when starts then {batch_guards.target(BatchChange.STARTED)} else state end as open_state,
        {batch_guards.settled_state()} as settled_state
    from batch_counted c
),
batch_changed as (
    update batches b set
        {_each("{name} = c.{name}")},
        state = coalesce(c.settled_state, c.open_state),
        start_time = case when c.starts then coalesce(b.start_time, c.now) else b.start_time end,
        settle_time = case when c.settled_state is not null then c.now else b.settle_time end,
        settlings = b.settlings + (c.settled_state is not null)::integer,
        event_count = b.event_count + c.starts::integer + c.ends + (c.settled_state is not null)::integer
    from batch_judged c where b.batch_id = c.batch_id and {batch_guards.still_open()}
    returning b.*, c.starts, c.ends, c.open_state, c.settled_state, c.now,
        b.event_count - c.ends - (c.settled_state is not null)::integer as events_before_ends
),
item_end as (
    select m.*, row_number() over (partition by batch_id order by item) as place,
        count(*) filter (where source = 'waiting') over later as later_from_waiting,
        count(*) filter (where source = 'running') over later as later_from_running,
        count(*) filter (where target = 'succeeded') over later as later_succeeded,
        count(*) filter (where target = 'failed') over later as later_failed,
        count(*) filter (where target = 'skipped') over later as later_skipped
    from item_move m where target in {_ENDED}
    window later as (partition by batch_id order by item rows between 1 following and unbounded following)
),
batch_event as (
    insert into batch_events (
        batch_id, number, state, {", ".join(COUNTERS)}, item, item_state, error_code, error_message,
        error_internal, event_time)
    select batch_id, events_before_ends, open_state, {", ".join(COUNTERS)}, 0, null, null, null, null, now
    from batch_changed where starts
    union all
    select
        batch_id, c.events_before_ends + e.place, c.open_state,
        c.waiting + e.later_from_waiting, c.running + e.later_from_running,
        c.succeeded - e.later_succeeded, c.failed - e.later_failed, c.skipped - e.later_skipped,
        e.item, e.state, e.error_code, e.error_message, e.error_internal, c.now
    from batch_changed c join item_end e using (batch_id)
    union all
    select batch_id, event_count, settled_state, {", ".join(COUNTERS)}, 0, null, null, null, null, now
    from batch_changed where settled_state is not null
)
"""


def counting(*, source: str, target: str, after: str | None = None, told: str | None = None) -> str:
    """Render the last CTEs of a statement whose CTE `moved` holds the jobs that it has changed.

    Args:
        source: Where items in `moved` were counted before, as SQL; the name of a counter.
        target: Where they are counted now.
        after: A CTE that locks rows besides `moved`; it is done before the first batch is locked.
        told: A CTE that tells other services of the jobs; it is done before they are told of batches.
    """
    return f"""
item_move as materialized (
    select
        batch_id, batch_item as item, {source} as source, {target} as target, state,
        case when state = 'FAILED' then error_code end as error_code,
        case when state = 'FAILED' then error_message end as error_message,
        case when state = 'FAILED' then error_internal end as error_internal
    from moved where batch_id is not null{_once_done(after)}
),
{_COUNTING.strip()},
{_outgoing(told)}
"""


def _once_done(other: str | None) -> str:
    """Render a condition that always holds, and is known once another CTE is done."""
    return f" and (select count(*) from {other}) >= 0" if other else ""


def _outgoing(told: str | None) -> str:
    return f"""
batch_outgoing as (
    insert into outbox (
        event_type, aggregate_type, aggregate_id, dedupe_key, payload, create_time, available_time)
    select
        'batch.finished', 'batch', batch_id, format('batch.finished:%s:%s', batch_id, settlings),
        jsonb_build_object(
            'batch_id', batch_id, 'job_type', job_type, 'state', settled_state, 'size', size,
            'counters', jsonb_build_object({_each("'{name}', {name}")}), 'settlement', settlings),
        now, now
    from batch_changed where settled_state is not null{_once_done(told)}
)
"""
