"""The outbox as operators see it: its rows by state, and dead ones sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from shared.domain.events import OutboxState
from shared.storage.database import Connection

LOOKED_AT_MAX = 20_000
"""Rows that one page looks through: some 20 ms. Only dead rows have an index of their own by number, for the
others come and go with every job; so a page of them may end before it is full."""

_SHOWN = """outbox_id, event_type, aggregate_type, aggregate_id, state, tries, payload::text as payload,
    last_error_code, last_error_message, available_time, delivered_time"""

_DEAD = sa.text(f"""
select {_SHOWN} from outbox where state = 'dead' and outbox_id > :after order by outbox_id limit :limit
""")

# Left joined, so that there is a row which says how far it has looked where none of them fits.
_OTHERS = sa.text(f"""
with looked_at as materialized (
    select outbox_id, state from outbox where outbox_id > :after order by outbox_id limit {LOOKED_AT_MAX}
),
fitting as (
    select outbox_id from looked_at where state = :state order by outbox_id limit :limit
)
select o.*, l.looked_to from (
    select case when count(*) = {LOOKED_AT_MAX} then max(outbox_id) end as looked_to from looked_at
) l left join (
    select {_SHOWN} from outbox join fitting using (outbox_id)
) o on true order by o.outbox_id
""")

# Rows that a cancel or a claim is about to remove, or another resend holds, are not waited for. A due time
# that has passed stays, and with it the place in the queue.
_RESEND = sa.text("""
update outbox o set
    state = 'pending', tries = 0, available_time = least(o.available_time, engine_time())
where o.outbox_id in (
    select outbox_id from outbox
    where state = 'dead' and (cast(:outbox_ids as bigint[]) is null or outbox_id = any(:outbox_ids))
    order by outbox_id limit :limit for update skip locked)
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessage:
    """A row of the outbox; the payload is JSON text, and holds no input, output or credential."""

    outbox_id: int
    event_type: str
    aggregate_type: str
    aggregate_id: UUID
    state: OutboxState
    tries: int
    payload: str
    last_error_code: str
    last_error_message: str
    available_time: datetime
    delivered_time: datetime | None


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """What a look found, oldest first.

    Attributes:
        looked_to: Where the look ended before it had seen all rows; None if it has seen them, or has found as
            many as it was to.
    """

    messages: Sequence[OutboxMessage]
    looked_to: int | None


class OutboxMessages:
    """Every kind of message, dispatches and events."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def page(self, state: OutboxState, *, after: int, limit: int) -> FoundMessages:
        """Return up to `limit` rows of a state, from behind the row number `after` on."""
        if state is OutboxState.DEAD:
            rows = await self._connection.execute(_DEAD, {"after": after, "limit": limit})
            return FoundMessages([_message(row) for row in rows], None)
        parameters = {"after": after, "limit": limit, "state": str(state)}
        found = (await self._connection.execute(_OTHERS, parameters)).all()
        messages = [_message(row) for row in found if row.outbox_id is not None]
        return FoundMessages(messages, found[0].looked_to if len(messages) < limit else None)

    async def resend(self, outbox_ids: Sequence[int] | None, *, limit: int) -> int:
        """Make up to `limit` dead rows pending, as if they had never been tried, and return how many.

        Args:
            outbox_ids: Which rows; those that are not dead are left alone. None stands for all, oldest first.
        """
        parameters = {"outbox_ids": None if outbox_ids is None else list(outbox_ids), "limit": limit}
        return (await self._connection.execute(_RESEND, parameters)).rowcount


def _message(row: Any) -> OutboxMessage:
    return OutboxMessage(
        outbox_id=row.outbox_id,
        event_type=row.event_type,
        aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id,
        state=OutboxState(row.state),
        tries=row.tries,
        payload=row.payload,
        last_error_code=row.last_error_code,
        last_error_message=row.last_error_message,
        available_time=row.available_time,
        delivered_time=row.delivered_time,
    )
