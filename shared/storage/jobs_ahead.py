"""How many jobs go before one: counted when somebody asks, and never more than a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from shared.domain.events import OutboxState
from shared.domain.identity import StreamName
from shared.storage.database import Connection
from shared.storage.dispatch_statements import DELIVERED, PENDING
from shared.storage.explanations import Standing, WaitingRow

AHEAD_MAX = 10_000
"""Jobs that are counted before another one: some 20 ms."""
PLACES_MAX = 2_000
"""Owners' places, one for each priority of theirs, among which those are counted."""

# The rows of more urgent streams are counted from their start.
_MORE_URGENT = f"""
urgent as (
    select count(*) as rows from (
        select from unnest(cast(:urgent as text[])) s(stream) cross join lateral (
            select from (
                select o.available_time from outbox o where {PENDING} and o.stream = s.stream
                limit {AHEAD_MAX}) p where p.available_time <= engine_time()
            union all
            select from outbox o where {DELIVERED} and o.stream = s.stream
        ) r limit {AHEAD_MAX}) r
)"""

_BEFORE_DELIVERED = sa.text(f"""
with {_MORE_URGENT},
handed_out as (
    select count(*) as rows from (
        select from outbox o where {DELIVERED} and o.stream = :stream
            and (o.delivered_time, o.outbox_id) < (cast(:delivered_time as timestamptz), :outbox_id)
        limit {AHEAD_MAX}) r
)
select least(urgent.rows + handed_out.rows, {AHEAD_MAX}) as rows,
    urgent.rows + handed_out.rows >= {AHEAD_MAX} as more
from urgent, handed_out
""")

# Owners take turns, so of each other one at most as many go first as its own owner has before it, and one
# more. Steps from one owner's priority to the next, so that what is not due yet is passed over. The row may
# have been handed out itself since it was read.
_BEFORE_PENDING = sa.text(f"""
with recursive present as materialized (select engine_time() as now), {_MORE_URGENT},
place as (
    (select o.owner, o.priority, 1 as number from outbox o where {PENDING} and o.stream = :stream
    order by o.owner, o.priority limit 1)
    union all
    select n.owner, n.priority, p.number + 1 from place p cross join lateral (
        select o.owner, o.priority from outbox o
        where {PENDING} and o.stream = :stream and (o.owner, o.priority) > (p.owner, p.priority)
        order by o.owner, o.priority limit 1) n
    where p.number < {PLACES_MAX}
),
level as (
    (select o.priority from outbox o where {PENDING} and o.stream = :stream and o.owner = :owner
    order by o.priority limit 1)
    union all
    select n.priority from level l cross join lateral (
        select o.priority from outbox o
        where {PENDING} and o.stream = :stream and o.owner = :owner and o.priority > l.priority
        order by o.priority limit 1) n
    where n.priority <= :priority
),
own as materialized (
    select count(*) as rows from (
        select from level l cross join lateral (
            select from outbox o
            where {PENDING} and o.stream = :stream and o.owner = :owner and o.priority = l.priority
                and o.available_time <= (select now from present)
                and (o.priority, o.available_time, o.outbox_id)
                    < (:priority, cast(:available_time as timestamptz), :outbox_id)
            limit {AHEAD_MAX}) r
        limit {AHEAD_MAX}) r
),
others as (
    select coalesce(sum(least(t.rows, (select own.rows + 1 from own))), 0) as rows,
        coalesce(sum(t.rows), 0) as looked_at
    from (
        select r.owner, count(*) as rows from (
            select p.owner from place p cross join lateral (
                select from outbox o
                where {PENDING} and o.stream = :stream and o.owner = p.owner and o.priority = p.priority
                    and o.available_time <= (select now from present)
                limit (select own.rows + 1 from own)) r
            where p.owner <> :owner limit {AHEAD_MAX}) r
        group by r.owner) t
),
handed_out as (
    select count(*) as rows from (
        select from outbox o where {DELIVERED} and o.stream = :stream and o.outbox_id <> :outbox_id
        limit {AHEAD_MAX}) r
)
select least(urgent.rows + own.rows + others.rows + handed_out.rows, {AHEAD_MAX})::bigint as rows,
    urgent.rows + own.rows + others.looked_at + handed_out.rows >= {AHEAD_MAX}
        or coalesce((select max(number) from place) = {PLACES_MAX}, false) as more
from urgent, own, others, handed_out
""")


@dataclass(frozen=True, slots=True)
class Ahead:
    """How many jobs go before one.

    Attributes:
        count: At most so many, as far as was counted; no more than `AHEAD_MAX`.
        more: Whether there may be more than were counted.
    """

    count: int
    more: bool


class JobsAhead:
    """Counts by the index that the dispatcher goes by."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def count(
        self, standing: Standing, dispatch: WaitingRow, more_urgent: Sequence[StreamName]
    ) -> Ahead:
        """Return how many due jobs go before one, at most.

        Those are: what has been handed out to services before it and was not taken yet; its owner's jobs that
        are more urgent, or as urgent and due earlier; of every other owner as many as have their turns before
        its own; and those of the more urgent streams.
        """
        parameters: dict[str, Any] = {
            "stream": standing.stream,
            "urgent": list(more_urgent),
            "outbox_id": dispatch.outbox_id,
        }
        if dispatch.state is OutboxState.DELIVERED:
            statement = _BEFORE_DELIVERED
            parameters |= {"delivered_time": dispatch.delivered_time}
        else:
            statement = _BEFORE_PENDING
            parameters |= {
                "owner": standing.owner,
                "priority": standing.priority,
                "available_time": dispatch.available_time,
            }
        row = (await self._connection.execute(statement, parameters)).one()
        return Ahead(row.rows, row.more)
