"""Items of batches tried again under a key: a call that is repeated does nothing again."""

from __future__ import annotations

import asyncio

import pytest

from job_api.operations.owner_quotas import OwnerLimits, OwnerQuotas
from shared.domain.batches import BatchState
from shared.domain.errors import BatchStateConflict, IdempotencyKeyReused, TooManyJobs
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps
from tests.support.batch_calls import BatchCalls, batch_in
from tests.support.batches import FAILURE, a_batch, end, faults_of_batches, jobs_of, the_batch

KEY = "a-retry-of-items"


@pytest.fixture
def calls(transactions: Transactions, wake_ups: WakeUps) -> BatchCalls:
    return BatchCalls(transactions, wake_ups)


async def test_a_call_that_is_repeated_tries_nothing_again_also_when_all_has_failed_once_more(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch_id = await batch_in(transactions, calls, BatchState.PARTIALLY_FAILED)
    first = await calls.retry(batch_id, key=KEY)
    assert (first.count, first.replayed) == (2, False)
    jobs = await jobs_of(transactions, batch_id)
    meanwhile = await calls.retry(batch_id, key=KEY)
    await end(transactions, batch_id, {2: FAILURE, 3: FAILURE})
    settled = await calls.retry(batch_id, key=KEY)

    assert [(each.count, each.replayed) for each in (meanwhile, settled)] == [(0, True)] * 2
    assert (meanwhile.batch.state, settled.batch.state) == (BatchState.QUEUED, BatchState.PARTIALLY_FAILED)
    assert await jobs_of(transactions, batch_id) == jobs
    assert (await calls.retry(batch_id, key="another-retry-of-items")).count == 2
    assert await faults_of_batches(transactions) == []


async def test_of_many_calls_at_once_with_one_key_one_tries_the_items_again(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch_id = await batch_in(transactions, calls, BatchState.FAILED)
    outcomes = await asyncio.gather(*(calls.retry(batch_id, 1, 3, key=KEY) for _ in range(4)))

    assert sorted((each.count, each.replayed) for each in outcomes) == [(0, True)] * 3 + [(2, False)]
    assert (await the_batch(transactions, batch_id)).counters.waiting == 2


async def test_a_key_stands_for_one_batch_and_one_choice_of_items(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch_id = await batch_in(transactions, calls, BatchState.FAILED)
    other = await batch_in(transactions, calls, BatchState.FAILED)
    await calls.retry(batch_id, 2, key=KEY)
    first = (await jobs_of(transactions, batch_id))[1]
    created = (await calls.create([b"{}"], key="a-batch-s-key")).batch.batch_id

    for wanted, items, key in ((batch_id, (1, 2), KEY), (other, (2,), KEY)):
        with pytest.raises(IdempotencyKeyReused) as refused:
            await calls.retry(wanted, *items, key=key)
        assert refused.value.metadata == {"job_id": str(first)}
    with pytest.raises(IdempotencyKeyReused) as refused:
        await calls.retry(other, key="a-batch-s-key")
    assert refused.value.metadata == {"batch_id": str(created)}
    with pytest.raises(IdempotencyKeyReused):
        await calls.create([b"{}"], key=KEY)
    assert (await the_batch(transactions, other)).state is BatchState.FAILED


async def test_a_key_of_a_call_that_did_nothing_is_free(
    transactions: Transactions, wake_ups: WakeUps, calls: BatchCalls
) -> None:
    batch_id = await a_batch(transactions, 2)
    assert (await calls.retry(batch_id, key=KEY)).count == 0
    with pytest.raises(BatchStateConflict):
        await calls.retry(batch_id, 1, key=KEY)
    await end(transactions, batch_id, {1: FAILURE, 2: FAILURE})
    limited = BatchCalls(transactions, wake_ups, quotas=OwnerQuotas(OwnerLimits(active_jobs=1)))
    with pytest.raises(TooManyJobs):
        await limited.retry(batch_id, key=KEY)

    retried = await calls.retry(batch_id, key=KEY)
    assert (retried.count, retried.replayed) == (2, False)
