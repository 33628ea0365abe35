"""The feed of events for other services: numbered one after the other, read by number, removed by age.

An outbox row is not numbered by the transaction that inserts it: a number that is taken before the commit
lets a reader who goes on behind the last one pass over what commits late. Whoever holds the feed's one row
numbers what is committed, and the numbers become visible together, with its commit. So behind a number that
was seen nothing is ever inserted, and the numbers have no gaps.

An event of a job or batch is inserted under a lock on it, so of two the earlier has the lower outbox id, and
is visible to whoever sees the later one: numbering in the order of ids keeps the order of each.

Who numbers locks the feed's row and then rows without a number; who removes locks rows with one and then the
feed's row. So neither waits for what the other is about to lock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from shared.storage.database import Connection

_COLUMNS = "feed_number, event_type, aggregate_type, aggregate_id, dedupe_key, payload::text, create_time"

_HOLD = sa.text("select last_number from event_feed for update skip locked")
# A statement of its own, so that it sees what was committed once the row above is held.
_NUMBER = sa.text("""
with unnumbered as (
    select outbox_id, row_number() over (order by outbox_id) as place from (
        select outbox_id from outbox where event_type <> 'job.dispatch' and feed_number is null
        order by outbox_id limit :limit) first
),
numbered as (
    update outbox o set feed_number = :last_number + u.place
    from unnumbered u where o.outbox_id = u.outbox_id
    returning o.feed_number
)
update event_feed set last_number = n.last_number
from (select max(feed_number) as last_number, count(*) as events from numbered) n where n.events > 0
returning n.events
""")


def _read(source: str) -> sa.TextClause:
    return sa.text(f"""
select f.removed_number, f.last_number, e.* from event_feed f
left join lateral ({source} order by feed_number limit :limit) e on true
order by e.feed_number
""")


_AFTER = _read(f"select {_COLUMNS} from outbox where feed_number > :number")
# Not `event_type = wanted.name`: of a rare type, the planner would then go through all events by number.
_AFTER_OF_TYPES = _read(f"""
select each.* from unnest(cast(:event_types as text[])) as wanted(name)
cross join lateral (
    select {_COLUMNS} from outbox o
    where (o.event_type, o.feed_number) > (wanted.name, :number) and o.event_type <= wanted.name
        and o.feed_number is not null
    order by o.event_type, o.feed_number limit :limit) each
""")

_REMOVE = sa.text("""
with oldest as (
    select outbox_id from outbox where feed_number is not null
    order by feed_number limit :limit for update skip locked
),
removed as (
    delete from outbox o using oldest
    where o.outbox_id = oldest.outbox_id and o.state = 'delivered'
        and o.delivered_time < engine_time() - cast(:age as interval)
    returning o.feed_number
)
update event_feed set removed_number = greatest(removed_number, r.last_number)
from (select max(feed_number) as last_number, count(*) as events from removed) r where r.events > 0
returning r.events
""")


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event that left the engine.

    Attributes:
        number: Its place in the feed, from 1 on.
        payload: JSON text, without input, output and credential.
        event_time: By the database's clock.
    """

    number: int
    event_type: str
    aggregate_type: str
    aggregate_id: UUID
    dedupe_key: str
    payload: str
    event_time: datetime


@dataclass(frozen=True, slots=True)
class FeedExtract:
    """A part of the feed, as it stood at one moment.

    Attributes:
        events: By number.
        removed: The highest number of what is no longer kept; 0 if all is.
        last: The highest number; 0 in an empty feed.
        through: Nothing that was asked for is between the last of the events and this number.
    """

    events: Sequence[FeedEvent]
    removed: int
    last: int
    through: int


class EventFeed:
    """Rows of the outbox that have a number."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def number_new(self, *, limit: int) -> int:
        """Number up to `limit` events that have none, and return how many; 0 if somebody else is at it.

        The commit must wait for the disk: readers build on the numbers that they have seen.
        """
        held = (await self._connection.execute(_HOLD)).one_or_none()
        if held is None:
            return 0
        parameters = {"last_number": held.last_number, "limit": limit}
        return _count(await self._connection.execute(_NUMBER, parameters))

    async def after(self, number: int, *, limit: int, event_types: Collection[str] = ()) -> FeedExtract:
        """Read up to `limit` events behind a number, of these types; of all types if none is named.

        Args:
            limit: 0 reads where the feed begins and ends, and no event.
        """
        parameters: dict[str, Any] = {"number": number, "limit": limit}
        statement = _AFTER
        if event_types:
            statement, parameters["event_types"] = _AFTER_OF_TYPES, sorted(event_types)
        rows = (await self._connection.execute(statement, parameters)).all()
        events = [_event(row) for row in rows if row.feed_number is not None]
        removed, last = rows[0].removed_number, rows[0].last_number
        through = last if len(events) < limit else events[-1].number if events else number
        return FeedExtract(events, removed, last, through)

    async def remove_old(self, *, age: timedelta, limit: int) -> int:
        """Remove those of the first `limit` events that were copied to Redis longer than `age` ago."""
        return _count(await self._connection.execute(_REMOVE, {"age": age, "limit": limit}))


def _count(result: sa.CursorResult[Any]) -> int:
    row = result.one_or_none()
    return row.events if row is not None else 0


def _event(row: Any) -> FeedEvent:
    return FeedEvent(
        number=row.feed_number,
        event_type=row.event_type,
        aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id,
        dedupe_key=row.dedupe_key,
        payload=row.payload,
        event_time=row.create_time,
    )
