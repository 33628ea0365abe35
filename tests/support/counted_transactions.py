"""Transactions that are counted, to see what many watchers cost together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.storage.transactions import Transaction, Transactions


class CountedTransactions(Transactions):
    """Counts how many were begun."""

    begun = 0

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        self.begun += 1
        async with super().begin() as transaction:
            yield transaction
