"""Events for other services: kept in the outbox, copied to Redis once they have their place in the feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from shared.domain.events import OutboxEventType
from shared.storage.database import Connection

_PENDING = "event_type <> 'job.dispatch' and state = 'pending'"

_LOCK_PENDING = sa.text(f"""
select outbox_id, event_type, aggregate_id, dedupe_key, payload::text as payload, create_time from outbox
where {_PENDING} and feed_number is not null and event_type = any(cast(:known as text[]))
order by outbox_id limit :limit for update skip locked
""")

_UNKNOWN = sa.text(f"""
select distinct event_type from outbox where {_PENDING} and event_type <> all(cast(:known as text[]))
""")

_MARK_DELIVERED = sa.text("""
update outbox set state = 'delivered', delivered_time = engine_time()
where outbox_id = any(cast(:outbox_ids as bigint[]))
""")

_KNOWN = [str(each) for each in OutboxEventType]


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event that leaves the engine; the payload is JSON text, and holds no input, output or credential."""

    outbox_id: int
    event_type: str
    aggregate_id: UUID
    dedupe_key: str
    payload: str
    create_time: datetime


class OutgoingEvents:
    """The outbox without its dispatch rows."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def lock_pending(self, *, limit: int) -> list[OutgoingEvent]:
        """Lock and return up to `limit` events of the feed that are not in Redis yet, oldest first.

        Rows that another dispatcher holds are skipped, and those of types that this version does not know.
        The locks last until the transaction ends.
        """
        rows = await self._connection.execute(_LOCK_PENDING, {"known": _KNOWN, "limit": limit})
        return [
            OutgoingEvent(
                row.outbox_id, row.event_type, row.aggregate_id, row.dedupe_key, row.payload, row.create_time
            )
            for row in rows
        ]

    async def unknown_types(self) -> set[str]:
        """Return the types of pending events that this version does not know: a newer one's, usually."""
        rows = await self._connection.execute(_UNKNOWN, {"known": _KNOWN})
        return {row.event_type for row in rows}

    async def mark_delivered(self, outbox_ids: Sequence[int]) -> None:
        """Record that these events were copied to Redis."""
        await self._connection.execute(_MARK_DELIVERED, {"outbox_ids": list(outbox_ids)})
