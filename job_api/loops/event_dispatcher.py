"""Copies events for other services out of the outbox into Redis, where they are convenient to read along."""

from __future__ import annotations

import structlog

from job_api.loops.delivery import DELIVERY_TIME_MAX, delivering
from shared.storage.transactions import Transactions
from shared.streams.event_copy import EventCopy

log = structlog.get_logger(__name__)

EVENTS_PER_STEP_MAX = 500
"""Some 200 KB in one command."""


class EventDispatcher:
    """Copies at least once, and within a batch in order: a crash before the commit copies it again.

    An event of a type that this version does not know stays pending for a version that does.
    """

    def __init__(self, transactions: Transactions, event_copy: EventCopy) -> None:
        self._transactions = transactions
        self._event_copy = event_copy
        self._set_aside = set[str]()

    async def step(self) -> bool:
        """Copy one batch; return True if it was full.

        Raises:
            PlatformUnavailable: Postgres or Redis is away; the events stay pending.
        """
        async with delivering(self._transactions) as transaction:
            events = await transaction.outgoing.lock_pending(limit=EVENTS_PER_STEP_MAX)
            if not events:
                self._tell(await transaction.outgoing.unknown_types())
                return False
            await transaction.repeatable(ended_after_silence=DELIVERY_TIME_MAX)
            await self._event_copy.append(events)
            await transaction.outgoing.mark_delivered([each.outbox_id for each in events])
        return len(events) == EVENTS_PER_STEP_MAX

    def _tell(self, unknown: set[str]) -> None:
        """Warn once of each type."""
        for event_type in sorted(unknown - self._set_aside):
            log.warning("event.set_aside", event_type=event_type, because="this version does not know it")
        self._set_aside |= unknown
