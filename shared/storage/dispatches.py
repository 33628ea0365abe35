"""Dispatch rows of the outbox: which attempts wait for an executor, and whether Redis was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from shared.domain.identity import JobId, JobType, Owner, QueueName, StreamName
from shared.storage.database import Connection
from shared.storage.dispatch_statements import (
    DELIVERED,
    LOCK_DUE,
    LOCK_DUE_LIMITED,
    WAITING,
    WAITING_LIMITED,
    stream_walk,
)


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

_WANTED = ("streams", "owners", "rooms", "job_types", "type_rooms", "owner_rooms")
"""The columns that the two statements know what is wanted by; the first three where there is no limit."""

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
        parameters: dict[str, Any] = {"streams": list(served), "owners": list(served.values())}
        statement = WAITING
        if at_once_per_owner:
            statement = WAITING_LIMITED
            parameters["limited_types"] = list(at_once_per_owner)
            parameters["at_once_per_owner"] = list(at_once_per_owner.values())
        rows = await self._connection.execute(statement, parameters)
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
        wanted = [(stream, owner) for stream in owners if room.get(stream) for owner in owners[stream]]
        free = [(*each, room[each[0]]) for each in wanted if each[0] not in limited]
        rest = [
            (*each, room[each[0]], *_left(limited[each[0]], each[1]))
            for each in wanted
            if each[0] in limited and limited[each[0]].rows != 0
        ]
        rows = [*await self._rows(LOCK_DUE, free), *await self._rows(LOCK_DUE_LIMITED, rest)]
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

    async def _rows(self, statement: sa.TextClause, wanted: Sequence[Sequence[Any]]) -> Sequence[sa.Row[Any]]:
        if not wanted:
            return ()
        columns = (list(column) for column in zip(*wanted, strict=True))
        return (await self._connection.execute(statement, dict(zip(_WANTED, columns, strict=False)))).all()

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


def _left(room: LimitedRoom, owner: Owner) -> tuple[JobType, int | None, int | None]:
    return room.job_type, room.rows, room.owner_rows.get(owner)
