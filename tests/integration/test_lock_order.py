"""Transactions that meet at the same rows: they lock them in one order, so none waits in a circle."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta

import pytest

from shared.domain.identity import IncarnationId, SessionId
from shared.domain.leases import PULSE_TOLERANCE, Heartbeat, Lease
from shared.runtime.ids import new_id
from shared.storage.transactions import Transaction, Transactions
from tests.support.blocking import until_blocked
from tests.support.database_time import DatabaseTime
from tests.support.storage import Session, a_job, a_lease, a_session, claim, claim_request


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


@pytest.mark.parametrize("claimants", ["sg gs", "gs sg", "gg sg", "gg gs"])
async def test_claims_of_each_other_s_refused_attempts_do_not_deadlock(
    transactions: Transactions, claimants: str
) -> None:
    """Workers read entries before their dispatcher has committed, and then claim all at the same moment.

    Each of two claims asks for both attempts, for sessions that stand or are gone; the latter are refused.
    """
    job_ids = [await a_job(transactions) for _ in range(2)]
    sessions = {
        "s": await a_session(transactions),
        "g": Session(SessionId(new_id()), IncarnationId(new_id())),
    }

    def claim_both(names: str) -> Coroutine[None, None, list[Lease]]:
        wishes = [claim_request(sessions[name], job_id) for name, job_id in zip(names, job_ids, strict=True)]
        return claim(transactions, *wishes)

    async with transactions.begin() as dispatching:
        owners = await dispatching.dispatches.waiting_owners({})
        rows = await dispatching.dispatches.lock_due(owners, dict.fromkeys(owners, 2))
        claims = [
            await until_blocked(transactions, claim_both(names), waiting=number)
            for number, names in enumerate(claimants.split(), start=1)
        ]
        await dispatching.dispatches.mark_delivered([each.outbox_id for each in rows])

    granted = [lease.ref.job_id for leases in await asyncio.gather(*claims) for lease in leases]
    assert len(granted) == len(set(granted))
