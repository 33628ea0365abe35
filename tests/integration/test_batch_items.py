"""What calls about batches do to their items: cancelled half-way, tried again, picked."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.batches import BatchCounters, BatchState
from shared.domain.errors import BatchStateConflict
from shared.domain.identity import JobId
from shared.domain.jobs import JobState
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps
from tests.support.batch_calls import BatchCalls, batch_in
from tests.support.batches import (
    FAILURE,
    SUCCESS,
    a_batch,
    end,
    events_of,
    everything_about_batches,
    faults_of_batches,
    jobs_of,
    start,
    the_batch,
)
from tests.support.storage import RETRYABLE, the_job

S = BatchState
RETRIED = AttemptEnd(AttemptOutcome.FAILED, RETRYABLE)


@pytest.fixture
def calls(transactions: Transactions, wake_ups: WakeUps) -> BatchCalls:
    return BatchCalls(transactions, wake_ups)


async def test_a_cancel_half_way_skips_what_waits_at_once_and_lets_finish_what_runs(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch_id = await a_batch(transactions, 6)
    await end(transactions, batch_id, {1: SUCCESS, 2: FAILURE, 3: RETRIED})
    await start(transactions, batch_id, [4, 5])
    batch = await calls.cancel(batch_id)

    assert (batch.state, batch.counters) == (S.RUNNING, BatchCounters(0, 2, 1, 1, 2))
    requested = (await events_of(transactions, batch_id))[4]
    assert (requested.state, requested.item) == (S.RUNNING, 0)
    jobs = [await the_job(transactions, each) for each in await jobs_of(transactions, batch_id)]
    assert [each.state for each in jobs[2:]] == [
        JobState.CANCELLED,
        JobState.RUNNING,
        JobState.RUNNING,
        JobState.CANCELLED,
    ]
    assert {each.cancellation for each in jobs[3:5]} == {None}

    await end(transactions, batch_id, {4: SUCCESS})
    assert (await the_batch(transactions, batch_id)).state is S.RUNNING
    await end(transactions, batch_id, {5: RETRIED})
    batch = await the_batch(transactions, batch_id)
    assert (batch.state, batch.counters) == (S.CANCELLED, BatchCounters(0, 0, 2, 1, 3))
    *_, last_end, settled = await events_of(transactions, batch_id)
    assert (last_end.item, last_end.item_state, last_end.error) == (5, JobState.CANCELLED, None)
    assert settled.state is S.CANCELLED
    assert await faults_of_batches(transactions) == []


@pytest.mark.parametrize("outcome", sorted(set(AttemptOutcome) - {AttemptOutcome.SUCCEEDED}), ids=str)
async def test_an_attempt_without_success_is_the_last_one_of_an_item_of_a_cancelled_batch(
    transactions: Transactions, calls: BatchCalls, outcome: AttemptOutcome
) -> None:
    batch_id = await a_batch(transactions, 1)
    await start(transactions, batch_id, [1])
    await calls.cancel(batch_id)
    await end(transactions, batch_id, {1: AttemptEnd(outcome)})

    (job_id,) = await jobs_of(transactions, batch_id)
    job = await the_job(transactions, job_id)
    assert (job.state, job.attempt, job.next_attempt_time) == (JobState.CANCELLED, 1, None)
    assert job.cancellation is not None
    assert (await the_batch(transactions, batch_id)).state is S.CANCELLED
    async with transactions.begin() as transaction:
        (attempt,) = await transaction.attempts.list_of(job_id, after=0, limit=10)
    assert attempt.outcome is outcome


async def test_a_cancel_that_is_asked_for_again_is_recorded_once(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch_id = await a_batch(transactions, 2)
    await start(transactions, batch_id, [1])
    first = await calls.cancel(batch_id)
    before = await everything_about_batches(transactions)

    assert await calls.cancel(batch_id) == first
    assert await everything_about_batches(transactions) == before


async def test_retrying_runs_the_failed_items_only_and_shows_their_earlier_jobs(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch_id = await batch_in(transactions, calls, S.PARTIALLY_FAILED)
    old = await jobs_of(transactions, batch_id)
    settled = await the_batch(transactions, batch_id)
    retried = await calls.retry(batch_id)

    new = await jobs_of(transactions, batch_id)
    assert (retried.count, retried.batch.counters) == (2, BatchCounters(2, 0, 1, 0, 0))
    assert (retried.batch.state, retried.batch.settle_time) == (S.QUEUED, settled.settle_time)
    assert retried.batch.start_time == settled.start_time
    assert (new[0] == old[0], len({*new, *old})) == (True, 5)
    await end(transactions, batch_id, {2: SUCCESS, 3: FAILURE})
    await calls.retry(batch_id, 3)
    await end(transactions, batch_id, {3: SUCCESS})

    batch = await the_batch(transactions, batch_id)
    assert (batch.state, batch.counters) == (S.AWAITING_REVIEW, BatchCounters(0, 0, 3, 0, 0))
    async with transactions.begin() as transaction:
        items = await transaction.batches.items(batch_id, states=frozenset(), after=0, limit=10)
    newest = await jobs_of(transactions, batch_id)
    assert [each.job.job_id for each in items] == newest
    assert [list(each.earlier_job_ids) for each in items] == [[], [old[1]], [old[2], new[2]]]
    assert [each.attempt_count for each in items] == [1, 2, 3]
    assert items[2].job.origin_job_id == new[2]
    assert (items[2].job.batch_id, items[2].job.batch_item) == (batch_id, 3)
    assert await faults_of_batches(transactions) == []


async def test_a_batch_that_settles_again_is_told_of_again(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch_id = await batch_in(transactions, calls, S.FAILED)
    await calls.retry(batch_id)
    await end(transactions, batch_id, {1: SUCCESS, 2: SUCCESS, 3: SUCCESS})

    statement = sa.text("select dedupe_key from outbox where event_type = 'batch.finished' order by 1")
    async with transactions.begin() as transaction:
        told = [row.dedupe_key for row in await transaction.connection.execute(statement)]
    assert told == [f"batch.finished:{batch_id}:1", f"batch.finished:{batch_id}:2"]


async def test_a_single_item_is_tried_again_while_others_run(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch_id = await a_batch(transactions, 3)
    await end(transactions, batch_id, {1: FAILURE, 2: FAILURE})
    retried = await calls.retry(batch_id, 1)

    assert (retried.batch.state, retried.batch.counters) == (S.RUNNING, BatchCounters(2, 0, 0, 1, 0))
    event = (await events_of(transactions, batch_id))[-1]
    assert (event.state, event.item, event.counters) == (S.RUNNING, 0, retried.batch.counters)


async def forget_input(transactions: Transactions, job_id: JobId) -> None:
    async with transactions.begin() as transaction:
        statement = sa.text("delete from snapshots where job_id = :job_id")
        await transaction.connection.execute(statement, {"job_id": job_id})


async def test_what_can_not_be_retried_is_named_and_nothing_else_is_retried(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch_id = await batch_in(transactions, calls, S.PARTIALLY_FAILED)
    await forget_input(transactions, (await jobs_of(transactions, batch_id))[2])
    cancelled = await a_batch(transactions, 2)
    await end(transactions, cancelled, {1: FAILURE})
    await start(transactions, cancelled, [2])
    await calls.cancel(cancelled)
    before = await everything_about_batches(transactions)
    for wanted, items, why in (
        (batch_id, (1, 2), "item 1 is SUCCEEDED, not FAILED"),
        (batch_id, (2, 4), "it has no item 4"),
        (batch_id, (), "the input of item 3 has expired"),
        (cancelled, (1,), "it was cancelled"),
        (cancelled, (), "it was cancelled"),
    ):
        with pytest.raises(BatchStateConflict, match=why):
            await calls.retry(wanted, *items)
    assert await everything_about_batches(transactions) == before


async def test_only_items_that_succeeded_can_be_selected_and_one_selection_stands(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch_id = await batch_in(transactions, calls, S.PARTIALLY_FAILED)
    before = await everything_about_batches(transactions)
    for items, why in (((1, 2), "item 2 is FAILED, not SUCCEEDED"), ((1, 9), "it has no item 9")):
        with pytest.raises(BatchStateConflict, match=why):
            await calls.select(batch_id, *items)
    assert await everything_about_batches(transactions) == before

    other = await batch_in(transactions, calls, S.AWAITING_REVIEW)
    batch = await calls.select(other, 1, 3)
    assert (batch.state, (await events_of(transactions, other))[-1].state) == (S.SELECTED, S.SELECTED)
    async with transactions.begin() as transaction:
        picked = await transaction.batches.items(other, states=frozenset(), after=0, limit=10)
    assert [each.selected for each in picked] == [True, False, True]
    with pytest.raises(BatchStateConflict, match="other items are selected"):
        await calls.select(other, 1)


async def test_every_effect_of_a_caller_on_a_batch_leaves_one_record(
    transactions: Transactions, calls: BatchCalls
) -> None:
    created = await calls.create([b"{}", b"{}"], key="a key of its own")
    await calls.create([b"{}", b"{}"], key="a key of its own")
    batch_id = created.batch.batch_id
    await end(transactions, batch_id, {1: SUCCESS, 2: FAILURE})
    await calls.retry(batch_id)
    await end(transactions, batch_id, {2: SUCCESS})
    for _ in range(2):
        await calls.select(batch_id, 1)
    for _ in range(2):
        await calls.advance(batch_id, S.EXPORTED)

    statement = sa.text("select action, aggregate_id, subject, owner from audit_records order by audit_id")
    async with transactions.begin() as transaction:
        records = [tuple(row) for row in await transaction.connection.execute(statement)]
    actions = ["batch.create", "batch.retry", "batch.select", "batch.advance"]
    assert records == [(action, batch_id, "owner", "owner") for action in actions]
