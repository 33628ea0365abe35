"""Processes that are stopped in the midst of a transaction: what they had locked is soon free again."""

from __future__ import annotations

import asyncio
from threading import Thread

import pytest
import sqlalchemy as sa

from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import JobId
from shared.domain.leases import PULSE_TOLERANCE
from shared.storage.database import TRANSACTION_SILENCE_SECONDS
from shared.storage.transactions import Transaction
from tests.support.storage import a_job, opened

_SOON = sa.text("set local idle_in_transaction_session_timeout = '200ms'")


async def test_no_transaction_may_be_silent_for_long(database_url: str) -> None:
    async with opened(database_url) as transactions, transactions.begin() as transaction:
        found = await transaction.connection.execute(sa.text("show idle_in_transaction_session_timeout"))
        assert found.scalar_one() == f"{TRANSACTION_SILENCE_SECONDS}s"


@pytest.mark.parametrize("locked", ["the pulse", "a job"])
async def test_what_a_frozen_process_had_locked_is_free_again_and_it_wakes_up_to_an_outage(
    database_url: str, locked: str
) -> None:
    """This loop stands still, as a stopped process does, until another one has got the lock."""
    async with opened(database_url) as transactions:
        job_id = await a_job(transactions)

        async def freeze() -> None:
            async with transactions.begin() as frozen:
                await frozen.connection.execute(_SOON)
                await _lock(frozen, locked, job_id)
                other = Thread(target=asyncio.run, args=(_lock_too(database_url, locked, job_id),))
                other.start()
                other.join()
                await _lock(frozen, locked, job_id)

        with pytest.raises(PlatformUnavailable):
            await freeze()
        async with transactions.begin() as transaction:
            await _lock(transaction, locked, job_id)


async def _lock_too(database_url: str, locked: str, job_id: JobId) -> None:
    async with opened(database_url) as transactions, transactions.begin() as transaction:
        await _lock(transaction, locked, job_id)


async def _lock(transaction: Transaction, locked: str, job_id: JobId) -> None:
    if locked == "a job":
        await transaction.jobs.lock(job_id)
    else:
        await transaction.leases.beat(tolerance=PULSE_TOLERANCE)
