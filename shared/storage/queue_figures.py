"""How much waits and runs in each queue, counted when somebody asks: no job pays for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa

from shared.domain.identity import JobType, QueueName, StreamName
from shared.storage.database import Connection
from shared.storage.dispatch_statements import PENDING, stream_walk

SEEN_WITHIN = timedelta(minutes=40)
"""An executor that was not heard of for so long is gone: one that lives says hello again within 36."""

_SLACK = 1.5
"""The search goes back so many minutes for events of the last one."""

COUNTED_MAX = 50_000
"""Rows that are counted of each stream and state: some 30 ms, and ten times that while they are quite new."""
PLACES_MAX = 20_000
"""Owners' places, one for each priority of theirs, among which a longer stream's oldest due row is found."""


def _counted(state: str) -> str:
    """Count the rows of all streams in one of the states that few are in."""
    return f"""
    select stream, count(*), min(available_time), sum(count(*)) over () > {COUNTED_MAX} from (
        select stream, available_time from outbox
        where event_type = 'job.dispatch' and state = '{state}' limit {COUNTED_MAX + 1}) r
    group by stream"""


# Steps from one stream to the next, and counts each one from its start. The oldest due row of one that is not
# counted to its end is the first row of some owner's priority.
_WAITING = sa.text(f"""
with recursive present as materialized (select engine_time() as now),
stream as ({stream_walk(PENDING)}),
pending as (
    select s.stream, c.rows, c.oldest from stream s cross join lateral (
        select count(*) as rows, min(r.available_time) as oldest from (
            select o.available_time from outbox o where {PENDING} and o.stream = s.stream
            limit {COUNTED_MAX + 1}) r
    ) c where s.stream is not null
),
counted as (
    select p.stream, p.rows, case when p.rows <= {COUNTED_MAX} then p.oldest else (
        with recursive place as (
            (select o.owner, o.priority, o.available_time, 1 as number from outbox o
            where {PENDING} and o.stream = p.stream
            order by o.owner, o.priority, o.available_time limit 1)
            union all
            select n.*, l.number + 1 from place l cross join lateral (
                select o.owner, o.priority, o.available_time from outbox o
                where {PENDING} and o.stream = p.stream and (o.owner, o.priority) > (l.owner, l.priority)
                order by o.owner, o.priority, o.available_time limit 1) n
            where l.number < {PLACES_MAX}
        )
        select min(available_time) from place) end as oldest, p.rows > {COUNTED_MAX} as more
    from pending p
    union all {_counted("delivered")}
    union all {_counted("dead")}
)
select stream, sum(least(rows, {COUNTED_MAX}))::bigint as waiting, bool_or(more) as more,
    case when min(oldest) <= (select now from present) then (select now from present) - min(oldest) end
    as oldest_due_age
from counted group by stream
""")

_RUNNING = sa.text("""
select (select j.queue from jobs j where j.job_id = l.job_id) as queue, count(*) as running
from leases l group by queue
""")

# The feed has no gaps and grows with time, so the first event of the last minute is found by halving: some
# twenty looks. Events are numbered in the order of their inserts, not of their times; they differ by no more
# than the longest transaction lasts.
_FINISHED = sa.text(f"""
with recursive present as materialized (select engine_time() as now),
search as (
    select removed_number as low, last_number + 1 as high from event_feed
    union all
    select case when m.early then m.number else m.low end, case when m.early then m.high else m.number end
    from (
        select s.low, s.high, (s.low + s.high) / 2 as number, coalesce((
            select o.create_time < (select now from present) - interval '1 minute' * {_SLACK}
            from outbox o where o.feed_number = (s.low + s.high) / 2), true) as early
        from search s where s.high - s.low > 1 offset 0
    ) m
),
finished as (
    select o.aggregate_id as job_id from outbox o
    where o.feed_number > (select max(low) from search)
        and o.event_type in ('job.succeeded', 'job.failed', 'job.cancelled')
        and o.create_time > (select now from present) - interval '1 minute'
)
select (select j.queue from jobs j where j.job_id = f.job_id) as queue, count(*) as finished
from finished f group by queue
""")

_EXECUTORS = sa.text("""
with heard as materialized (
    select s.incarnation_id, s.job_types from executor_sessions s
    where s.hello_time > engine_time() - cast(:seen_within as interval) or exists (
        select from leases l where l.incarnation_id = s.incarnation_id
            and l.heartbeat_time > engine_time() - cast(:seen_within as interval))
)
select d.queue, count(distinct h.incarnation_id) as executors
from unnest(cast(:job_types as text[]), cast(:queues as text[])) d(job_type, queue)
join heard h on d.job_type = any(h.job_types)
group by d.queue
""")


@dataclass(frozen=True, slots=True)
class WaitingStream:
    """What waits for one kind of executor.

    Attributes:
        waiting: Jobs, due or not; at least 1.
        more: Whether there are more than were counted.
        oldest_due_age: How long the oldest due one has waited since then; None if none is due.
    """

    stream: StreamName
    waiting: int
    more: bool
    oldest_due_age: timedelta | None


class QueueFigures:
    """The counts see one moment each, not the same one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def waiting(self) -> Sequence[WaitingStream]:
        """Return the streams for which jobs wait, in no order."""
        rows = await self._connection.execute(_WAITING)
        return [WaitingStream(row.stream, row.waiting, row.more, row.oldest_due_age) for row in rows]

    async def running(self) -> Mapping[QueueName, int]:
        """Return how many leases there are, of each queue that has any."""
        rows = await self._connection.execute(_RUNNING)
        return {row.queue: row.running for row in rows if row.queue is not None}

    async def finished_last_minute(self) -> Mapping[QueueName, int]:
        """Return how many jobs of each queue ended in the last minute; a queue without any is not named.

        Those whose events have no place in the feed yet, as for a moment after the commit, are not counted.
        """
        rows = await self._connection.execute(_FINISHED)
        return {row.queue: row.finished for row in rows if row.queue is not None}

    async def executors(self, queues: Mapping[JobType, QueueName]) -> Mapping[QueueName, int]:
        """Return how many executors announce a job type of each queue; a queue without any is not named.

        Args:
            queues: The queue of each job type.
        """
        parameters = {
            "job_types": list(queues),
            "queues": list(queues.values()),
            "seen_within": SEEN_WITHIN,
        }
        return {row.queue: row.executors for row in await self._connection.execute(_EXECUTORS, parameters)}
