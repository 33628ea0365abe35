"""Batches on real processes: some items fail, those are tried again, and one batch is cancelled half-way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from job_api.client import AsyncClient, BatchCounters, BatchEvent, BatchState, BatchView, JobState
from tests.support import batch_runs
from verification.stage import stack

FEW_AT_ONCE = {**stack.SHORT_TIMES, "BATON_QUEUES__DRILL__AT_ONCE": "16"}
"""So that a batch is still half-way when its watchers hear that it is."""
SIZES = [300, pytest.param(10_000, marks=[pytest.mark.prove, pytest.mark.timeout(900)])]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("batches") / "stack"
    with stack.running(directory, executors=2, environment=FEW_AT_ONCE) as running:
        yield running.control


@pytest.mark.parametrize("size", SIZES)
def test_of_a_batch_three_items_in_a_hundred_fail_and_only_those_are_tried_again(
    address: str, size: int
) -> None:
    failing = list(range(17, size + 1, 33))

    async def run() -> None:
        async with AsyncClient(address) as client:
            created = await client.create_batch("synthetic", batch_runs.inputs(size, failing=failing))
            batch, told = await batch_runs.followed(client, created.batch_id)
            ends = BatchCounters(0, 0, size - len(failing), len(failing), 0)
            require_settled(batch, ends, [failed.number for failed in batch.failed_items or ()], failing)
            assert told.faults(size) == []
            assert told.polled

            retried = await client.retry_batch_items(created.batch_id)
            assert retried.count == len(failing)
            assert retried.batch.counters == BatchCounters(len(failing), 0, size - len(failing), 0, 0)
            again, retold = await batch_runs.followed(client, created.batch_id, after=batch.last_event_number)
            require_settled(again, ends, [failed.number for failed in again.failed_items or ()], failing)
            assert retold.faults(size) == []
            assert sorted(each.item for each in retold.events if each.item) == failing

            items = [each async for each in client.batch_items(created.batch_id, page_size=1_000)]
            assert [each.number for each in items] == list(range(1, size + 1))
            assert [each.number for each in items if each.earlier_job_ids] == failing
            assert all(each.attempt_count == 1 + len(each.earlier_job_ids) for each in items)

    asyncio.run(run())


def require_settled(batch: BatchView, ends: BatchCounters, failed: list[int], failing: list[int]) -> None:
    assert (batch.state, batch.counters, batch.progress) == (BatchState.PARTIALLY_FAILED, ends, 100)
    assert failed == failing[:1_000]


@pytest.mark.parametrize("size", SIZES)
def test_a_cancel_half_way_skips_what_waits_at_once_and_lets_finish_what_runs(
    address: str, size: int
) -> None:
    async def run() -> None:
        async with AsyncClient(address) as client:
            inputs = batch_runs.inputs(size, failing=(), duration_seconds=0.3)
            created = await client.create_batch("synthetic", inputs)
            following = asyncio.create_task(batch_runs.followed(client, created.batch_id))
            async for update in client.watch_batch(created.batch_id):
                if isinstance(update.what, BatchEvent) and update.what.counters.succeeded >= size // 10:
                    break
            cancelled = await client.cancel_batch(created.batch_id)
            assert (cancelled.counters.waiting, cancelled.counters.failed) == (0, 0)
            assert cancelled.counters.skipped > 0
            batch, told = await following

            assert batch.state is BatchState.CANCELLED
            assert told.faults(size) == []
            assert batch.counters.skipped == cancelled.counters.skipped
            assert batch.counters.succeeded == size - cancelled.counters.skipped
            states = [JobState.CANCELLED]
            skipped = [each async for each in client.batch_items(created.batch_id, states=states)]
            assert len(skipped) == batch.counters.skipped
            assert {each.attempt_count for each in skipped} == {0}

    asyncio.run(run())
