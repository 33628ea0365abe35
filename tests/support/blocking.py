"""Waits until a statement waits: for tests of two transactions that meet at a row."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import sqlalchemy as sa

from shared.storage.transactions import Transactions

_WAITING = sa.text("""
select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
""")
_POLL_SECONDS = 0.01
_SECONDS_MAX = 10.0

Result = TypeVar("Result")


async def until_blocked(
    transactions: Transactions, work: Coroutine[Any, Any, Result], *, waiting: int = 1
) -> asyncio.Task[Result]:
    """Start `work` and return it once so many transactions wait for locks that others hold, or it is done."""
    task = asyncio.create_task(work)
    async with asyncio.timeout(_SECONDS_MAX):
        while not task.done():
            async with transactions.begin() as transaction:
                if (await transaction.connection.execute(_WAITING)).scalar_one() >= waiting:
                    break
            await asyncio.sleep(_POLL_SECONDS)
    return task
