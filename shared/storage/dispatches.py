"""Dispatch rows of the outbox: which attempts wait for an executor, and whether Redis was told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa

from shared.domain.identity import JobId, JobType, Owner, QueueName, StreamName
from shared.storage.database import Connection

OWNERS_PER_STREAM_MAX = 32
"""Owners of a stream who get their turns in one pass; the others have them in the next ones."""

OWNERS_LOOKED_AT_MAX = 300
"""Owners of a stream among whom one pass looks for those: some 10 ms if none of them has a due row."""


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


PENDING = "o.event_type = 'job.dispatch' and o.state = 'pending'"
_DELIVERED = "o.event_type = 'job.dispatch' and o.state = 'delivered'"


def stream_walk(rows: str) -> str:
    """Render the recursive query `stream`, which steps through the index from one stream to the next.

    Its only column is `stream` too, null in the last row.

    Args:
        rows: The condition on the outbox `o` by which a stream has rows; it fits one of the partial indexes.
    """
    return f"""
    (select o.stream from outbox o where {rows} order by o.stream limit 1)
    union all
    select (select o.stream from outbox o where {rows} and o.stream > s.stream order by o.stream limit 1)
    from stream s where s.stream is not null
"""


def _first_owner(stream_of: str, condition: str) -> str:
    return f"""(
        select o.owner from outbox o where {PENDING} and o.stream = {stream_of}.stream and {condition}
        order by o.owner limit 1)"""


def _any_due(of: str) -> str:
    """Whether an owner has a due row.

    Usually the first one is, or all are as urgent. Else each level of urgency is asked for its oldest one,
    and no other row is read.
    """
    rows = f"{PENDING} and o.stream = {of}.stream and o.owner = {of}.owner"
    return f"""(
        select o.available_time <= (select now from present) from outbox o where {rows}
        order by o.priority, o.available_time limit 1)
    or (select o.priority from outbox o where {rows} order by o.priority limit 1)
        < (select o.priority from outbox o where {rows} order by o.priority desc limit 1)
    and exists (
        with recursive level as (
            (select o.priority from outbox o where {rows} order by o.priority limit 1)
            union all
            select (
                select o.priority from outbox o where {rows} and o.priority > l.priority
                order by o.priority limit 1)
            from level l where l.priority is not null
        )
        select from level l where (
            select o.available_time <= (select now from present) from outbox o
            where {rows} and o.priority = l.priority order by o.available_time limit 1))"""


# Steps through the index from one stream to the next, and in each from one owner to the next, so that the
# cost grows with streams and owners and not with the backlog. Behind the last owner comes the first one. An
# `offset 0` keeps the planner from looking an owner up anew wherever it is named.
_WAITING = sa.text(f"""
with recursive present as materialized (select engine_time() as now),
stream as ({stream_walk(PENDING)}),
served as (
    select * from unnest(cast(:streams as text[]), cast(:owners as text[])) as v(stream, owner)
),
owner as (
    select f.*, 1 as place, d.due, d.due::integer as found
    from (
        select s.stream, v.owner as served, coalesce(
            {_first_owner("s", "(v.owner is null or o.owner > v.owner)")},
            {_first_owner("s", "o.owner <= v.owner")}) as owner
        from stream s left join served v using (stream) where s.stream is not null offset 0
    ) f cross join lateral (select {_any_due("f")} as due offset 0) d
    union all
    select n.stream, n.served, n.owner, n.place, d.due, n.found_before + d.due::integer
    from (
        select w.stream, w.served, case when w.owner <= w.served
            then {_first_owner("w", "o.owner > w.owner and o.owner <= w.served")}
            else coalesce(
                {_first_owner("w", "o.owner > w.owner")}, {_first_owner("w", "o.owner <= w.served")}) end
            as owner, w.place + 1 as place, w.found as found_before
        from owner w where w.owner is not null
            and w.place < {OWNERS_LOOKED_AT_MAX} and w.found < {OWNERS_PER_STREAM_MAX} offset 0
    ) n cross join lateral (select {_any_due("n")} as due offset 0) d
),
looked_at as (
    select stream, owner, place, due, place = max(place) over (partition by stream) as last
    from owner where owner is not null
)
select stream, array_agg(owner order by place) filter (where due or last) as owners
from looked_at group by stream
""")

# Owners take turns in the order given; within an owner the more urgent goes first, then the oldest due.
_LOCK_DUE = sa.text(f"""
with wanted as (
    select * from unnest(cast(:streams as text[]), cast(:owners as text[]), cast(:rooms as integer[]))
        with ordinality as w(stream, owner, room, place)
),
candidate as (
    select o.outbox_id, w.stream, w.room, w.place,
        row_number() over (
            partition by w.stream, w.owner order by o.priority, o.available_time, o.outbox_id) as turn
    from wanted w cross join lateral (
        select o.outbox_id, o.priority, o.available_time from outbox o
        where {PENDING} and o.stream = w.stream and o.owner = w.owner and o.available_time <= engine_time()
        order by o.priority, o.available_time, o.outbox_id limit w.room) o
),
ranked as (
    select outbox_id, room, row_number() over (partition by stream order by turn, place) as rank
    from candidate
)
select o.outbox_id, o.stream, o.owner, o.aggregate_id as job_id, o.priority, o.attempt,
    o.payload ->> 'job_type' as job_type, o.payload ->> 'queue' as queue
from outbox o join ranked r using (outbox_id)
where r.rank <= r.room and o.state = 'pending'
order by r.rank for update of o skip locked
""")

_MARK_DELIVERED = sa.text("""
update outbox set state = 'delivered', delivered_time = engine_time()
where outbox_id = any(cast(:outbox_ids as bigint[]))
""")

_UNCLAIMED = sa.text(f"""
with recursive stream as ({stream_walk(_DELIVERED)})
select s.stream, coalesce((
    select o.delivered_time < engine_time() - cast(:age as interval) from outbox o
    where {_DELIVERED} and o.stream = s.stream order by o.delivered_time limit 1), false) as old
from stream s where s.stream is not null
""")

_PUT_BACK = sa.text(f"""
update outbox set state = 'pending', delivered_time = null where outbox_id in (
    select o.outbox_id from outbox o
    where {_DELIVERED} and o.stream = any(cast(:streams as text[]))
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
        self, served: Mapping[StreamName, Owner]
    ) -> Mapping[StreamName, Sequence[Owner]]:
        """Return the streams with pending rows, each with the owners of due ones in the order of their turns.

        Args:
            served: The owner whose turn it was last, by stream; the next one by name begins. A stream not
                named begins with its first owner.

        Returns:
            For each stream 1 to `OWNERS_PER_STREAM_MAX` owners, each once. The last one may have nothing due:
            nobody between the others and it has, so the next pass goes on behind it.
        """
        parameters = {"streams": list(served), "owners": list(served.values())}
        rows = await self._connection.execute(_WAITING, parameters)
        return {row.stream: row.owners for row in rows if row.owners}

    async def lock_due(
        self, owners: Mapping[StreamName, Sequence[Owner]], room: Mapping[StreamName, int]
    ) -> list[Dispatch]:
        """Lock and return due rows, for each stream as many as there is room, the owners taking turns.

        Rows that another dispatcher holds are skipped, so dispatchers never wait for each other. The locks
        last until the transaction ends.
        """
        wanted = [
            (stream, owner, room[stream])
            for stream, each in owners.items()
            for owner in each
            if room.get(stream)
        ]
        if not wanted:
            return []
        streams, names, rooms = (list(column) for column in zip(*wanted, strict=True))
        rows = await self._connection.execute(
            _LOCK_DUE, {"streams": streams, "owners": names, "rooms": rooms}
        )
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
