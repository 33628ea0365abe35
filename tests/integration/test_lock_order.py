"""Transactions that meet at the same rows: they lock them in one order, so none waits in a circle."""

from __future__ import annotations

from datetime import timedelta

from shared.domain.leases import Heartbeat, Lease
from shared.storage.transactions import Transaction, Transactions
from tests.support.blocking import until_blocked
from tests.support.database_time import PULSE_TOLERANCE, DatabaseTime
from tests.support.storage import Session, a_job, a_lease, a_session


async def two_leases(transactions: Transactions, session: Session) -> tuple[Lease, Lease]:
    """Leases whose rows stand in the table in the other order than their ids."""
    first, second = sorted([await a_job(transactions), await a_job(transactions)])
    higher = await a_lease(transactions, session=session, job_id=second)
    return await a_lease(transactions, session=session, job_id=first), higher


async def beat(transaction: Transaction, lease: Lease) -> None:
    outcome = await transaction.leases.extend([Heartbeat(lease.ref)])
    assert not outcome.lost


async def test_time_that_is_given_back_and_heartbeats_do_not_deadlock(
    transactions: Transactions, database_time: DatabaseTime
) -> None:
    lower, higher = await two_leases(transactions, await a_session(transactions))
    await database_time.jump(PULSE_TOLERANCE + timedelta(seconds=60))

    async with transactions.begin() as transaction:
        await beat(transaction, lower)
        pulse = await until_blocked(transactions, database_time.pulse())
        await beat(transaction, higher)

    assert await pulse > PULSE_TOLERANCE
