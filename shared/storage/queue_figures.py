"""How much waits and runs in each queue, counted when somebody asks: no job pays for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa

from shared.domain.identity import JobType, QueueName, StreamName
from shared.storage.database import Connection

SEEN_WITHIN = timedelta(minutes=40)
"""An executor that was not heard of for so long is gone: one that lives says hello again within 36."""

# Of pending rows, as nearly all of a backlog are, only their index is read.
_WAITING = sa.text("""
with present as materialized (select engine_time() as now)
select stream, sum(rows)::bigint as waiting, (select now from present) - min(oldest) as oldest_due_age
from (
    select stream, count(*) as rows,
        min(available_time) filter (where available_time <= (select now from present)) as oldest
    from outbox where event_type = 'job.dispatch' and state = 'pending' group by stream
    union all
    select stream, count(*), min(available_time) filter (where available_time <= (select now from present))
    from outbox where event_type = 'job.dispatch' and state = 'delivered' group by stream
    union all
    select stream, count(*), min(available_time) filter (where available_time <= (select now from present))
    from outbox where event_type = 'job.dispatch' and state = 'dead' group by stream
) w group by stream
""")

_RUNNING = sa.text("""
select (select j.queue from jobs j where j.job_id = l.job_id) as queue, count(*) as running
from leases l group by queue
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
        oldest_due_age: How long the oldest due one has waited since then; None if none is due.
    """

    stream: StreamName
    waiting: int
    oldest_due_age: timedelta | None


class QueueFigures:
    """The counts see one moment each, not the same one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def waiting(self) -> Sequence[WaitingStream]:
        """Return the streams for which jobs wait, in no order."""
        rows = await self._connection.execute(_WAITING)
        return [WaitingStream(row.stream, row.waiting, row.oldest_due_age) for row in rows]

    async def running(self) -> Mapping[QueueName, int]:
        """Return how many leases there are, of each queue that has any."""
        rows = await self._connection.execute(_RUNNING)
        return {row.queue: row.running for row in rows if row.queue is not None}

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
