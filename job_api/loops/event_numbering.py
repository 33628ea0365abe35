"""Gives events for other services their places in the feed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shared.storage.transactions import Transactions

EVENTS_PER_STEP_MAX = 1_000
"""Rows that one transaction rewrites: a few milliseconds, in which no other replica numbers."""


class EventNumbering:
    """One replica at a time numbers; the others find nothing to do. Redis has no part in it."""

    def __init__(self, transactions: Transactions, *, wake: Sequence[asyncio.Event]) -> None:
        self._transactions = transactions
        self._wake = wake

    async def step(self) -> bool:
        """Number what is committed and has no number yet; return True if there may be more."""
        async with self._transactions.begin() as transaction:
            numbered = await transaction.event_feed.number_new(limit=EVENTS_PER_STEP_MAX)
        if numbered:
            for each in self._wake:
                each.set()
        return numbered == EVENTS_PER_STEP_MAX
