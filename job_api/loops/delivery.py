"""The transaction in which rows of the outbox are handed to Redis: it holds them while Redis answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from shared.domain.errors import PlatformUnavailable
from shared.storage.transactions import Transaction, Transactions

DELIVERY_TIME_MAX = timedelta(seconds=10)
"""Longest transaction. Several times the longest wait for Redis (2 s), which it holds row locks through."""


@asynccontextmanager
async def delivering(transactions: Transactions) -> AsyncIterator[Transaction]:
    """Begin a transaction that ends in time, whatever it waits for.

    Raises:
        PlatformUnavailable: Postgres is away, or the transaction took too long.
    """
    try:
        async with asyncio.timeout(DELIVERY_TIME_MAX.total_seconds()), transactions.begin() as transaction:
            yield transaction
    except TimeoutError as error:
        raise PlatformUnavailable("database") from error
