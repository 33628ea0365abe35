"""Copies events for other services out of the outbox into Redis, where they are convenient to read along."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from shared.domain.errors import PlatformUnavailable
from shared.storage.transactions import Transactions
from shared.streams.event_copy import EventCopy

EVENTS_PER_STEP_MAX = 500
"""Some 200 KB in one command."""

TRANSACTION_SECONDS = 10.0
"""Longest transaction. Several times the longest wait for Redis (2 s), which it holds row locks through."""


class EventDispatcher:
    """Copies at least once, and within a batch in order: a crash before the commit copies it again."""

    def __init__(self, transactions: Transactions, event_copy: EventCopy) -> None:
        self._transactions = transactions
        self._event_copy = event_copy

    async def step(self) -> bool:
        """Copy one batch; return True if it was full.

        Raises:
            PlatformUnavailable: Postgres or Redis is away; the events stay pending.
        """
        try:
            async with asyncio.timeout(TRANSACTION_SECONDS), self._transactions.begin() as transaction:
                events = await transaction.outgoing.lock_pending(limit=EVENTS_PER_STEP_MAX)
                if not events:
                    return False
                await transaction.end_if_silent(timedelta(seconds=TRANSACTION_SECONDS))
                await self._event_copy.append(events)
                await transaction.outgoing.mark_delivered([each.outbox_id for each in events])
        except TimeoutError as error:
            raise PlatformUnavailable("database") from error
        return len(events) == EVENTS_PER_STEP_MAX
