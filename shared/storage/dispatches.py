"""Dispatch rows of the outbox: which attempts wait for an executor, and whether Redis was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

import sqlalchemy as sa

from shared.domain.identity import JobId, JobType, Owner, QueueName, StreamName
from shared.storage.database import Connection
from shared.storage.dispatch_statements import DELIVERED, LOCK_DUE, WAITING, stream_walk


@dataclass(frozen=True, slots=True)
class Dispatch:
    """An attempt that waits for an executor."""

    outbox_id: int
    stream: StreamName
    owner: Owner
    job_id: JobId
    job_type: JobType
    queue: QueueName
    priority: int
    attempt: int


@dataclass(frozen=True, slots=True)
class LimitedRoom:
    """What the limits of a job type leave for one of its streams.

    Attributes:
        rows: At most so many for this stream and the more urgent ones of the type together; None if the type
            has no limit in all.
        owner_rows: The same for each owner; empty if owners have no limit.
    """

    job_type: JobType
    rows: int | None
    owner_rows: Mapping[Owner, int]


_NO_LIMITS: Mapping[JobType, int] = MappingProxyType({})
_UNLIMITED: Mapping[StreamName, LimitedRoom] = MappingProxyType({})

_MARK_DELIVERED = sa.text("""
update outbox set state = 'delivered', delivered_time = engine_time()
where outbox_id = any(cast(:outbox_ids as bigint[]))
""")

_UNCLAIMED = sa.text(f"""
with recursive stream as ({stream_walk(DELIVERED)})
select s.stream, coalesce((
    select o.delivered_time < engine_time() - cast(:age as interval) from outbox o
    where {DELIVERED} and o.stream = s.stream order by o.delivered_time limit 1), false) as old
from stream s where s.stream is not null
""")

_PUT_BACK = sa.text(f"""
update outbox set state = 'pending', delivered_time = null where outbox_id in (
    select o.outbox_id from outbox o
    where {DELIVERED} and o.stream = any(cast(:streams as text[]))
        and o.delivered_time <= engine_time() - cast(:age as interval)
    order by o.outbox_id limit :limit for update skip locked)
""")

_PAST_START_BY = sa.text("""
select o.aggregate_id as job_id from outbox o
where o.start_by_time <= engine_time() order by o.start_by_time limit :limit
""")


class Dispatches:
    """A dispatch row exists exactly while its job waits for an executor."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def waiting_owners(
        self, served: Mapping[StreamName, Owner], at_once_per_owner: Mapping[JobType, int] = _NO_LIMITS
    ) -> Mapping[StreamName, Sequence[Owner]]:
        """Return the streams with pending rows, each with the owners of due ones in the order of their turns.

        Streams of paused queues and job types are left out.

        Args:
            served: The owner whose turn it was last, by stream; the next one by name begins. A stream not
                named begins with its first owner.
            at_once_per_owner: Owners who hold so many leases of a type are passed over in its streams.

        Returns:
            For each stream 1 to `OWNERS_PER_STREAM_MAX` owners, each once. The last one may have nothing due:
            nobody between the others and it has, so the next pass goes on behind it.
        """
        parameters = {
            "streams": list(served),
            "owners": list(served.values()),
            "limited_types": list(at_once_per_owner),
            "at_once_per_owner": list(at_once_per_owner.values()),
        }
        rows = await self._connection.execute(WAITING, parameters)
        return {row.stream: row.owners for row in rows if row.owners}

    async def lock_due(
        self,
        owners: Mapping[StreamName, Sequence[Owner]],
        room: Mapping[StreamName, int],
        limited: Mapping[StreamName, LimitedRoom] = _UNLIMITED,
    ) -> list[Dispatch]:
        """Lock and return due rows, for each stream as many as there is room, the owners taking turns.

        Rows that another dispatcher holds are skipped, so dispatchers never wait for each other. The locks
        last until the transaction ends.

        Args:
            limited: What job types' limits leave besides; a stream not named has none.
        """
        wanted = [
            (stream, owner, room[stream], *_limited(limited.get(stream), owner))
            for stream, each in owners.items()
            for owner in each
            if room.get(stream) and not (stream in limited and limited[stream].rows == 0)
        ]
        if not wanted:
            return []
        names = ("streams", "owners", "rooms", "limited_types", "type_rooms", "owner_rooms")
        columns = (list(column) for column in zip(*wanted, strict=True))
        rows = await self._connection.execute(LOCK_DUE, dict(zip(names, columns, strict=True)))
        return [
            Dispatch(
                row.outbox_id,
                row.stream,
                row.owner,
                row.job_id,
                row.job_type,
                row.queue,
                row.priority,
                row.attempt,
            )
            for row in rows
        ]

    async def mark_delivered(self, outbox_ids: Sequence[int]) -> None:
        """Record that Redis has entries for these rows."""
        await self._connection.execute(_MARK_DELIVERED, {"outbox_ids": list(outbox_ids)})

    async def past_start_by(self, *, limit: int) -> list[JobId]:
        """Return up to `limit` jobs that have not started by their start-by time, longest past first."""
        rows = await self._connection.execute(_PAST_START_BY, {"limit": limit})
        return [row.job_id for row in rows]

    async def delivered_streams(self, *, age: timedelta) -> Mapping[StreamName, bool]:
        """Return the streams that have delivered, unclaimed rows; True where one is older than `age`."""
        rows = await self._connection.execute(_UNCLAIMED, {"age": age})
        return {row.stream: row.old for row in rows}

    async def put_back(
        self, streams: Sequence[StreamName], *, limit: int, age: timedelta = timedelta(0)
    ) -> int:
        """Make up to `limit` delivered rows of these streams pending again if they are at least `age` old.

        Returns how many. Rows that a claim holds are skipped.
        """
        if not streams:
            return 0
        parameters = {"streams": list(streams), "age": age, "limit": limit}
        return (await self._connection.execute(_PUT_BACK, parameters)).rowcount


def _limited(room: LimitedRoom | None, owner: Owner) -> tuple[JobType | None, int | None, int | None]:
    if room is None:
        return None, None, None
    return room.job_type, room.rows, room.owner_rows.get(owner)
