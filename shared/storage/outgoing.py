"""Events for other services: kept in the outbox, copied to Redis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from shared.domain.events import OutboxEventType
from shared.storage import tables
from shared.storage.database import Connection

_OUTBOX = tables.outbox
_PENDING = (_OUTBOX.c.event_type != OutboxEventType.JOB_DISPATCH, _OUTBOX.c.state == "pending")
_KNOWN = _OUTBOX.c.event_type.in_(list(OutboxEventType))


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event that leaves the engine; the payload holds no input, output or credential."""

    outbox_id: int
    event_type: str
    aggregate_id: UUID
    dedupe_key: str
    payload: dict[str, Any]
    create_time: datetime


class OutgoingEvents:
    """The outbox without its dispatch rows."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def lock_pending(self, *, limit: int) -> list[OutgoingEvent]:
        """Lock and return up to `limit` events that are not in Redis yet, oldest first.

        Rows that another dispatcher holds are skipped, and those of types that this version does not know.
        The locks last until the transaction ends.
        """
        statement = (
            sa.select(_OUTBOX)
            .where(*_PENDING, _KNOWN)
            .order_by(_OUTBOX.c.outbox_id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        rows = await self._connection.execute(statement)
        return [
            OutgoingEvent(
                row.outbox_id, row.event_type, row.aggregate_id, row.dedupe_key, row.payload, row.create_time
            )
            for row in rows
        ]

    async def unknown_types(self) -> set[str]:
        """Return the types of pending events that this version does not know: a newer one's, usually."""
        statement = sa.select(_OUTBOX.c.event_type).where(*_PENDING, ~_KNOWN).distinct()
        return {row.event_type for row in await self._connection.execute(statement)}

    async def mark_delivered(self, outbox_ids: Sequence[int]) -> None:
        """Record that these events were copied to Redis."""
        statement = (
            sa.update(_OUTBOX)
            .where(_OUTBOX.c.outbox_id.in_(outbox_ids))
            .values(state="delivered", delivered_time=sa.func.engine_time())
        )
        await self._connection.execute(statement)
