"""Leases of a type with limits: claimed as workers do, and counted as the database tells of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from random import Random

import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId, JobType, Owner
from shared.domain.leases import Lease, TypeLimits
from shared.storage.transactions import Transactions
from tests.support.storage import Session, a_session, claim, claim_request, end_attempt

SYNTHETIC = JobType("synthetic")

Span = tuple[datetime, datetime]
"""When a lease was granted, and when it ended."""

_SPANS = sa.text("""
select j.owner, a.start_time, a.end_time from attempts a join jobs j using (job_id) order by a.start_time
""")


async def claim_all(
    transactions: Transactions, session: Session, job_ids: Sequence[JobId], limits: TypeLimits | None
) -> list[Lease]:
    """Claim first attempts, in this order."""
    return await claim(transactions, *(claim_request(session, each, limits=limits) for each in job_ids))


async def succeed(transactions: Transactions, lease: Lease) -> None:
    await end_attempt(transactions, lease.ref, AttemptEnd(AttemptOutcome.SUCCEEDED))


async def race_to_run(
    transactions: Transactions, job_ids: Sequence[JobId], limits: TypeLimits, *, racers: int, seed: int = 1
) -> None:
    """Run all jobs to their ends: so many racers, each claiming a few of those that wait at the same time."""
    waiting = set(job_ids)

    async def race(random: Random) -> None:
        session = await a_session(transactions)
        while waiting:
            wanted = random.sample(sorted(waiting), k=min(len(waiting), 6))
            for lease in await claim_all(transactions, session, wanted, limits):
                waiting.discard(lease.ref.job_id)
                await succeed(transactions, lease)

    await asyncio.gather(*(race(Random(f"{seed}:{number}")) for number in range(racers)))


async def spans(transactions: Transactions) -> dict[Owner, list[Span]]:
    """All ended leases, by owner."""
    found: dict[Owner, list[Span]] = {}
    async with transactions.begin() as transaction:
        for row in await transaction.connection.execute(_SPANS):
            found.setdefault(row.owner, []).append((row.start_time, row.end_time))
    return found


def most_at_once(leases: Sequence[Span]) -> int:
    """How many of the leases stood at the moment at which most of them did."""
    changes = sorted([(start, 1) for start, _ in leases] + [(end, -1) for _, end in leases])
    most = count = 0
    for _, change in changes:
        count += change
        most = max(most, count)
    return most
