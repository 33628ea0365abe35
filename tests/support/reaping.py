"""Leases to be reaped, and what has become of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from shared.domain.attempts import AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.leases import Heartbeat, Lease, LeaseTerms
from shared.storage.attempts import Attempt
from shared.storage.transactions import Transactions
from tests.support.storage import a_lease

SECOND = timedelta(seconds=1)
LONG = LeaseTerms(duration=30 * SECOND, timeout=600 * SECOND, grace=3 * SECOND)
SHORT_TIMEOUT = LeaseTerms(duration=30 * SECOND, timeout=10 * SECOND, grace=3 * SECOND)


async def accepted(transactions: Transactions, *, terms: LeaseTerms = LONG, **changes: Any) -> Lease:
    """A lease whose executor has been heard."""
    lease = await a_lease(transactions, terms=terms, **changes)
    await beat(transactions, lease)
    return lease


async def beat(transactions: Transactions, *leases: Lease) -> None:
    async with transactions.begin() as transaction:
        outcome = await transaction.leases.extend([Heartbeat(each.ref) for each in leases])
    assert not outcome.lost


async def attempts(transactions: Transactions, job_id: JobId) -> Sequence[Attempt]:
    async with transactions.begin() as transaction:
        return await transaction.attempts.list_of(job_id, after=0, limit=100)


async def outcomes(transactions: Transactions, job_id: JobId) -> list[AttemptOutcome | None]:
    return [each.outcome for each in await attempts(transactions, job_id)]
