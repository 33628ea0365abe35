"""Jobs that start and finish at a steady rate, many in a statement, with the hints that a worker sends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.leases import Lease
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps
from tests.support import storage

TICKS_PER_SECOND = 100


async def jobs_of(transactions: Transactions, count: int) -> Sequence[JobId]:
    jobs = [storage.new_job() for _ in range(count)]
    async with transactions.begin() as transaction:
        await transaction.creation.create_jobs(jobs)
    return [each.job_id for each in jobs]


async def finish_steadily(
    transactions: Transactions, wake_ups: WakeUps, job_ids: Sequence[JobId], *, jobs_per_second: int
) -> None:
    """Start jobs, and finish each a tick later."""
    session = await storage.a_session(transactions)
    size = jobs_per_second // TICKS_PER_SECOND
    loop = asyncio.get_running_loop()
    due, started = loop.time(), list[Lease]()
    for start in range(0, len(job_ids) + size, size):
        starting = job_ids[start : start + size]
        ended = [each.ref.job_id for each in started]
        await _end(transactions, started)
        requests = [storage.claim_request(session, each) for each in starting]
        started = await storage.claim(transactions, *requests) if requests else []
        assert len(started) == len(starting)
        await wake_ups.jobs_changed([*ended, *starting])
        due += 1 / TICKS_PER_SECOND
        await asyncio.sleep(max(0, due - loop.time()))


async def _end(transactions: Transactions, leases: Sequence[Lease]) -> None:
    if not leases:
        return
    async with transactions.begin() as transaction:
        success = AttemptEnd(AttemptOutcome.SUCCEEDED)
        ends = [await storage.ending(transaction, each.ref, success) for each in leases]
        assert len(await transaction.states.end_attempts(ends)) == len(leases)
