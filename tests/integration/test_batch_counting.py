"""What moves of jobs do to their batches: counters, events, and how a batch settles."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.batches import BATCH_TRANSITIONS, BatchCounters, BatchState, settled_by
from shared.domain.identity import BatchId
from shared.domain.jobs import JobState
from shared.storage import batch_guards
from shared.storage.batch_tables import COUNTERS
from shared.storage.transactions import Transactions
from tests.support.batches import (
    FAILURE,
    SUCCESS,
    a_batch,
    end,
    events_of,
    faults_of_batches,
    jobs_of,
    start,
    the_batch,
)
from tests.support.storage import FINAL, RETRYABLE, a_job, a_lease, end_attempt

RETRIED = AttemptEnd(AttemptOutcome.FAILED, RETRYABLE)
GIVEN_BACK = AttemptEnd(AttemptOutcome.GIVEN_BACK)


async def cancel(transactions: Transactions, batch_id: BatchId, *items: int) -> None:
    """Cancel waiting items, as a caller may one job."""
    jobs = await jobs_of(transactions, batch_id)
    wanted = [jobs[item - 1] for item in items]
    async with transactions.begin() as transaction:
        assert await transaction.states.cancel_waiting(wanted) == set(wanted)


async def told_of(transactions: Transactions, batch_id: BatchId) -> list[dict[str, Any]]:
    """Return what other services are told of the batch."""
    statement = sa.text(
        "select dedupe_key, payload, aggregate_type from outbox"
        " where aggregate_id = :batch_id and event_type = 'batch.finished' order by outbox_id"
    )
    async with transactions.begin() as transaction:
        rows = await transaction.connection.execute(statement, {"batch_id": batch_id})
        return [dict(row) for row in rows.mappings()]


async def test_how_a_batch_settles_is_the_same_in_the_database_as_in_the_domain(
    transactions: Transactions,
) -> None:
    combinations = [
        (BatchCounters(*counters), cancel_requested)
        for counters in itertools.product((0, 1, 2), repeat=5)
        for cancel_requested in (False, True)
    ]
    values = {
        **{name: [getattr(each, name) for each, _ in combinations] for name in COUNTERS},
        "cancel_requested": [cancel_requested for _, cancel_requested in combinations],
    }
    arrays = ", ".join(
        [*(f"cast(:{name} as int[])" for name in COUNTERS), "cast(:cancel_requested as bool[])"]
    )
    statement = sa.text(
        f"select {batch_guards.settled_state()} as state from unnest({arrays}) with ordinality"
        f" as c({', '.join(values)}, place) order by place"
    )
    async with transactions.begin() as transaction:
        told = [row.state for row in await transaction.connection.execute(statement, values)]

    changes = [settled_by(counters, cancel_requested=asked) for counters, asked in combinations]
    assert told == [change and BATCH_TRANSITIONS[change].target for change in changes]


async def test_a_new_batch_waits_and_its_first_event_says_so(transactions: Transactions) -> None:
    batch_id = await a_batch(transactions, 3)

    batch = await the_batch(transactions, batch_id)
    (event,) = await events_of(transactions, batch_id)
    assert (batch.state, batch.size) == (BatchState.QUEUED, 3)
    assert batch.counters == event.counters == BatchCounters(3, 0, 0, 0, 0)
    assert (event.state, event.item, event.item_state) == (BatchState.QUEUED, 0, None)
    assert (batch.start_time, batch.settle_time, batch.progress) == (None, None, 0)


async def test_the_first_item_that_starts_makes_the_batch_run_and_the_others_are_only_counted(
    transactions: Transactions,
) -> None:
    batch_id = await a_batch(transactions, 3)
    await start(transactions, batch_id, [2])
    first = await the_batch(transactions, batch_id)
    await start(transactions, batch_id, [1, 3])

    batch = await the_batch(transactions, batch_id)
    _, started = await events_of(transactions, batch_id)
    assert (started.state, started.counters) == (BatchState.RUNNING, BatchCounters(2, 1, 0, 0, 0))
    assert batch.counters == BatchCounters(0, 3, 0, 0, 0)
    assert first.start_time == batch.start_time == started.event_time


@pytest.mark.parametrize("how", [RETRIED, GIVEN_BACK], ids=lambda how: str(how.outcome))
async def test_an_item_that_is_to_be_tried_again_waits_without_an_event(
    transactions: Transactions, how: AttemptEnd
) -> None:
    batch_id = await a_batch(transactions, 2)
    await end(transactions, batch_id, {1: how})
    waiting = await the_batch(transactions, batch_id)
    await end(transactions, batch_id, {1: SUCCESS}, attempt=2)

    assert (waiting.state, waiting.counters) == (BatchState.RUNNING, BatchCounters(2, 0, 0, 0, 0))
    assert [each.item for each in await events_of(transactions, batch_id)] == [0, 0, 1]
    assert await faults_of_batches(transactions) == []


async def test_items_that_end_together_have_an_event_each_whose_counters_add_up(
    transactions: Transactions,
) -> None:
    batch_id = await a_batch(transactions, 5)
    await start(transactions, batch_id, [1, 2, 3, 4])
    await end(transactions, batch_id, {4: SUCCESS, 2: FAILURE, 3: RETRIED, 1: SUCCESS})

    ends = (await events_of(transactions, batch_id))[2:]
    assert [(each.item, each.item_state, each.error) for each in ends] == [
        (1, JobState.SUCCEEDED, None),
        (2, JobState.FAILED, FINAL),
        (4, JobState.SUCCEEDED, None),
    ]
    assert [each.counters for each in ends] == [
        BatchCounters(2, 2, 1, 0, 0),
        BatchCounters(2, 1, 1, 1, 0),
        BatchCounters(2, 0, 2, 1, 0),
    ]
    assert {each.state for each in ends} == {BatchState.RUNNING}
    assert await faults_of_batches(transactions) == []


SETTLED = {
    "all succeeded": ({1: SUCCESS, 2: SUCCESS}, [], BatchState.AWAITING_REVIEW),
    "one failed": ({1: SUCCESS, 2: FAILURE}, [], BatchState.PARTIALLY_FAILED),
    "all failed": ({1: FAILURE, 2: FAILURE}, [], BatchState.FAILED),
    "one skipped": ({1: SUCCESS}, [2], BatchState.AWAITING_REVIEW),
    "failed or skipped": ({1: FAILURE}, [2], BatchState.FAILED),
    "all skipped": ({}, [1, 2], BatchState.CANCELLED),
}


@pytest.mark.parametrize("case", SETTLED)
async def test_a_batch_settles_with_its_last_item_and_says_so_once(
    transactions: Transactions, case: str
) -> None:
    ends, skipped, state = SETTLED[case]
    batch_id = await a_batch(transactions, 2)
    if ends:
        await end(transactions, batch_id, ends)
    if skipped:
        await cancel(transactions, batch_id, *skipped)

    batch = await the_batch(transactions, batch_id)
    *_, last_end, settled = await events_of(transactions, batch_id)
    assert (batch.state, batch.progress) == (state, 100)
    assert (settled.state, settled.item, settled.item_state) == (state, 0, None)
    assert settled.counters == last_end.counters == batch.counters
    assert last_end.item > 0
    assert last_end.state in (BatchState.RUNNING, BatchState.QUEUED)
    assert batch.settle_time == settled.event_time
    (told,) = await told_of(transactions, batch_id)
    assert (told["dedupe_key"], told["aggregate_type"]) == (f"batch.finished:{batch_id}:1", "batch")
    assert told["payload"] == {
        "batch_id": str(batch_id),
        "job_type": "synthetic",
        "state": state,
        "size": 2,
        "counters": {name: getattr(batch.counters, name) for name in COUNTERS},
        "settlement": 1,
    }


async def test_that_a_batch_has_finished_is_told_to_other_services_behind_its_last_item(
    transactions: Transactions,
) -> None:
    batch_id = await a_batch(transactions, 2)
    await end(transactions, batch_id, {1: SUCCESS, 2: FAILURE})
    async with transactions.begin() as transaction:
        await transaction.event_feed.number_new(limit=10)
    async with transactions.begin() as transaction:
        feed = await transaction.event_feed.after(0, limit=10)
        copied = await transaction.outgoing.lock_pending(limit=10)

    *items, finished = feed.events
    assert sorted(each.event_type for each in items) == ["job.failed", "job.succeeded"]
    assert (finished.event_type, finished.aggregate_id) == ("batch.finished", batch_id)
    assert [each.dedupe_key for each in copied] == [each.dedupe_key for each in feed.events]


async def test_items_of_several_batches_that_end_together_are_counted_in_each(
    transactions: Transactions,
) -> None:
    first, second = await a_batch(transactions, 2), await a_batch(transactions, 1)
    jobs = [*(await jobs_of(transactions, first)), *(await jobs_of(transactions, second))]
    async with transactions.begin() as transaction:
        await transaction.states.cancel_waiting([jobs[0], jobs[2]])

    assert (await the_batch(transactions, first)).counters == BatchCounters(1, 0, 0, 0, 1)
    assert (await the_batch(transactions, second)).state is BatchState.CANCELLED
    assert await faults_of_batches(transactions) == []


async def test_the_database_keeps_no_counters_that_do_not_add_up(transactions: Transactions) -> None:
    batch_id = await a_batch(transactions, 2)
    with pytest.raises(sa.exc.IntegrityError):
        async with transactions.begin() as transaction:
            await transaction.connection.execute(sa.text("update batches set waiting = 1"))
    assert (await the_batch(transactions, batch_id)).counters.waiting == 2


async def test_a_job_that_is_run_again_by_itself_is_counted_nowhere(transactions: Transactions) -> None:
    batch_id = await a_batch(transactions, 1)
    await end(transactions, batch_id, {1: FAILURE})
    before, events = await the_batch(transactions, batch_id), await events_of(transactions, batch_id)
    (failed,) = await jobs_of(transactions, batch_id)
    lease = await a_lease(transactions, job_id=await a_job(transactions, origin_job_id=failed))
    await end_attempt(transactions, lease.ref, SUCCESS)

    assert await the_batch(transactions, batch_id) == before
    assert await events_of(transactions, batch_id) == events
