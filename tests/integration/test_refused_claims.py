"""What becomes of the dispatch row when a claim is refused."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.storage.transactions import Transactions
from tests.support import storage
from tests.support.storage import a_job, a_lease, a_session, claim_request


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


async def until_waiting_for_a_lock(transactions: Transactions) -> None:
    statement = sa.text("select 1 from pg_stat_activity where wait_event_type = 'Lock'")
    async with asyncio.timeout(10):
        while True:
            async with transactions.begin() as transaction:
                if (await transaction.connection.execute(statement)).first():
                    return
