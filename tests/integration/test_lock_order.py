"""Transactions that meet at the same rows: they lock them in one order, so none waits in a circle."""

from __future__ import annotations

from datetime import timedelta

from shared.domain.identity import SessionId
from shared.domain.leases import Heartbeat, Lease
from shared.runtime.ids import new_id
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


async def hello_again(transactions: Transactions, session: Session, *, named: Lease) -> int:
    """Replace the session as the service does, and return how many leases it did not name."""
    newer = SessionId(new_id())
    async with transactions.begin() as transaction:
        await transaction.sessions.replace(
            session.incarnation_id, newer, executor_name="executor", runtime="test", job_types=[]
        )
        unnamed = await transaction.attempts.lock_unnamed(session.incarnation_id, named=[named.ref.token])
        await transaction.leases.attach(session.incarnation_id, newer, [named.ref])
        return len(unnamed)


async def test_a_hello_and_heartbeats_of_its_older_session_do_not_deadlock(
    transactions: Transactions,
) -> None:
    session = await a_session(transactions)
    lower, higher = await two_leases(transactions, session)

    async with transactions.begin() as transaction:
        await beat(transaction, lower)
        hello = await until_blocked(transactions, hello_again(transactions, session, named=lower))
        await beat(transaction, higher)

    assert await hello == 1
