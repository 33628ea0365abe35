"""What becomes of the dispatch row when a claim is refused."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.storage.claim_statement import PUT_BACK_REFUSED_SECONDS, PUT_BACK_SECONDS
from shared.storage.transactions import Transactions
from tests.support import storage
from tests.support.storage import Session, a_job, a_lease, a_session, claim_request


async def test_a_claim_that_is_refused_while_a_dispatcher_holds_the_row_puts_it_back(
    transactions: Transactions,
) -> None:
    """The entry can be read before its dispatcher has committed; once refused it is gone from the stream."""
    job_id = await a_job(transactions)
    refusing = await a_session(transactions)
    lease = await a_lease(transactions, session=refusing, job_id=job_id)
    await storage.end_attempt(transactions, lease.ref, AttemptEnd(AttemptOutcome.GIVEN_BACK, refused=True))
    again = claim_request(refusing, job_id, attempt=2)

    async with transactions.begin() as dispatching:
        owners = await dispatching.dispatches.waiting_owners({})
        (row,) = await dispatching.dispatches.lock_due(owners, dict.fromkeys(owners, 1))
        claiming = asyncio.create_task(storage.claim(transactions, again))
        await until_waiting_for_a_lock(transactions)
        await dispatching.dispatches.mark_delivered([row.outbox_id])
    assert await claiming == []

    async with transactions.begin() as transaction:
        assert await transaction.dispatches.delivered_streams(age=timedelta(0)) == {}
        assert list(await transaction.dispatches.waiting_owners({})) == [row.stream]


async def a_refused_job(transactions: Transactions, refusing: Session) -> JobId:
    """A job that an executor gave back for good, and whose next attempt Redis was told of."""
    lease = await a_lease(transactions, session=refusing)
    await storage.end_attempt(transactions, lease.ref, AttemptEnd(AttemptOutcome.GIVEN_BACK, refused=True))
    await execute(transactions, "update outbox set state = 'delivered'")
    return lease.ref.job_id


async def wait_after_refusal(transactions: Transactions, refusing: Session, job_id: JobId) -> float:
    """Claim for the executor that refused, and return in how many seconds the row is due again."""
    assert await storage.claim(transactions, claim_request(refusing, job_id, attempt=2)) == []
    statement = """
        select state, extract(epoch from available_time - engine_time())::float as seconds from outbox
        where aggregate_id = :job_id"""
    async with transactions.begin() as transaction:
        row = (await transaction.connection.execute(sa.text(statement), {"job_id": job_id})).one()
    assert row.state == "pending"
    seconds: float = row.seconds
    return seconds


async def execute(transactions: Transactions, statement: str) -> None:
    async with transactions.begin() as transaction:
        await transaction.connection.execute(sa.text(statement))


async def test_a_job_that_its_only_executor_refused_waits_for_another_one_in_peace(
    transactions: Transactions,
) -> None:
    refusing = await a_session(transactions)
    job_id = await a_refused_job(transactions, refusing)
    wait = await wait_after_refusal(transactions, refusing, job_id)
    assert PUT_BACK_SECONDS < wait <= PUT_BACK_REFUSED_SECONDS


async def test_a_job_that_another_executor_can_take_is_soon_offered_again(transactions: Transactions) -> None:
    refusing = await a_session(transactions)
    job_id = await a_refused_job(transactions, refusing)
    await a_session(transactions)
    assert await wait_after_refusal(transactions, refusing, job_id) <= PUT_BACK_SECONDS


async def until_waiting_for_a_lock(transactions: Transactions) -> None:
    statement = sa.text("select 1 from pg_stat_activity where wait_event_type = 'Lock'")
    async with asyncio.timeout(10):
        while True:
            async with transactions.begin() as transaction:
                if (await transaction.connection.execute(statement)).first():
                    return
