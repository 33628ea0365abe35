"""Jobs to be dispatched, and what has come to their streams."""

from __future__ import annotations

from shared.domain.identity import JobId, Owner, StreamName
from shared.storage.transactions import Transactions
from shared.streams.lease_streams import Entry, LeaseStreams
from tests.support.storage import STREAM, new_job


async def jobs_of(transactions: Transactions, owner: str, count: int, priority: int = 50) -> list[JobId]:
    jobs = [new_job(owner=Owner(owner), priority=priority) for _ in range(count)]
    async with transactions.begin() as transaction:
        await transaction.creation.create_jobs(jobs)
    return [each.job_id for each in jobs]


async def take(streams: LeaseStreams, stream: StreamName = STREAM) -> list[Entry]:
    entries = await streams.take([(stream, 10_000)], "reader")
    await streams.settle(entries)
    return entries
