"""A batch of as many items as one may have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Sequence

from shared.domain.batches import BatchCounters, BatchState
from shared.domain.identity import JobId
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps
from tests.support.batch_calls import BatchCalls
from tests.support.batches import (
    FAILURE,
    SUCCESS,
    events_of,
    faults_of_batches,
    jobs_of,
    leases_of,
    the_batch,
)
from tests.support.storage import a_session, claim, claim_request, ending_of

ITEMS = 10_000
AT_ONCE = 500
"""Leases that one statement grants or ends; a worker's are fewer."""
FAILING = frozenset(range(33, ITEMS + 1, 33))


async def start(transactions: Transactions, jobs: Sequence[JobId]) -> None:
    session = await a_session(transactions)
    for place in range(0, len(jobs), AT_ONCE):
        part = jobs[place : place + AT_ONCE]
        assert len(await claim(transactions, *(claim_request(session, each) for each in part))) == len(part)


async def end_leased(
    transactions: Transactions, jobs: Sequence[JobId], *, failing: Collection[JobId]
) -> None:
    for place in range(0, len(jobs), AT_ONCE):
        async with transactions.begin() as transaction:
            leases = await leases_of(transaction, jobs[place : place + AT_ONCE])
            held = await transaction.attempts.lock(list(leases.values()))
            endings = [
                ending_of(each, FAILURE if lease.job_id in failing else SUCCESS)
                for lease, each in held.items()
            ]
            assert len(await transaction.states.end_attempts(endings)) == len(held)


async def looked_at(transactions: Transactions, work: Awaitable[None]) -> None:
    """Compare all counters with the items again and again while something goes on."""
    working = asyncio.ensure_future(work)
    while not working.done():
        assert await faults_of_batches(transactions) == []
        await asyncio.wait({working}, timeout=0.05)
    await working


async def test_of_10_000_items_3_per_cent_fail_and_those_alone_are_tried_again(
    transactions: Transactions, wake_ups: WakeUps
) -> None:
    calls = BatchCalls(transactions, wake_ups)
    batch_id = (await calls.create([b"{}"] * ITEMS, key="a-large-batch")).batch.batch_id
    assert (await calls.create([b"{}"] * ITEMS, key="a-large-batch")).replayed
    jobs = await jobs_of(transactions, batch_id)
    failing = {jobs[number - 1] for number in FAILING}

    for part in (jobs[: ITEMS // 2], jobs[ITEMS // 2 :]):
        await looked_at(transactions, start(transactions, part))
        await looked_at(transactions, end_leased(transactions, part, failing=failing))
    batch = await the_batch(transactions, batch_id)
    assert batch.state is BatchState.PARTIALLY_FAILED
    assert batch.counters == BatchCounters(0, 0, ITEMS - len(FAILING), len(FAILING), 0)
    ends = [each.item for each in await events_of(transactions, batch_id) if each.item]
    assert sorted(ends) == list(range(1, ITEMS + 1))

    retried = await calls.retry(batch_id)
    assert (retried.count, retried.batch.counters.waiting) == (len(FAILING), len(FAILING))
    again = await jobs_of(transactions, batch_id)
    assert {n for n, job_id in enumerate(again, 1) if job_id != jobs[n - 1]} == FAILING
    new = [again[number - 1] for number in sorted(FAILING)]
    await start(transactions, new)
    await looked_at(transactions, end_leased(transactions, new, failing=()))
    batch = await the_batch(transactions, batch_id)
    assert (batch.state, batch.counters) == (
        BatchState.AWAITING_REVIEW,
        BatchCounters(0, 0, ITEMS, 0, 0),
    )


async def test_10_000_items_that_are_cancelled_half_way_wait_no_more(
    transactions: Transactions, wake_ups: WakeUps
) -> None:
    calls = BatchCalls(transactions, wake_ups)
    batch_id = (await calls.create([b"{}"] * ITEMS)).batch.batch_id
    jobs = await jobs_of(transactions, batch_id)
    done, running = jobs[: ITEMS // 2], jobs[ITEMS // 2 : ITEMS // 2 + 8]
    await start(transactions, [*done, *running])
    await end_leased(transactions, done, failing=())
    batch = await calls.cancel(batch_id)

    skipped = ITEMS - len(done) - len(running)
    assert (batch.state, batch.counters) == (
        BatchState.RUNNING,
        BatchCounters(0, len(running), len(done), 0, skipped),
    )
    await end_leased(transactions, running, failing=running[:4])
    batch = await the_batch(transactions, batch_id)
    assert (batch.state, batch.counters) == (
        BatchState.CANCELLED,
        BatchCounters(0, 0, len(done) + 4, 0, skipped + 4),
    )
    assert await faults_of_batches(transactions) == []
