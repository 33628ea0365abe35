"""Both clients ask about batches on the real service, with executors that do as the test says."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from job_api.client import (
    AsyncClient,
    BatchCounters,
    BatchEvent,
    BatchState,
    BatchUnfinished,
    BatchView,
    Client,
    JobState,
    Target,
    TimeOver,
    errors,
)
from shared.domain.identity import BatchId
from tests.support import batches
from tests.support.batches import FAILURE, SUCCESS
from tests.support.control_service import Control

INPUTS: list[dict[str, Any]] = [{"items": 1}, {"items": 2}, {"items": 3}]
KEY = "night-0001"


async def the_only_batch(control: Control) -> BatchId:
    """Wait until a client has created it."""
    async with AsyncClient(control.opened.address) as client, asyncio.timeout(20):
        while True:
            async for batch in client.batches():
                return batch.batch_id
            await asyncio.sleep(0.02)


async def work(control: Control) -> None:
    """Do what executors do: the second item fails."""
    batch_id = await the_only_batch(control)
    await batches.end(control.transactions, batch_id, {1: SUCCESS})
    await batches.end(control.transactions, batch_id, {2: FAILURE, 3: SUCCESS})


async def run_blocking(address: str, **options: Any) -> BatchView:
    def run() -> BatchView:
        with Client(address) as client:
            return client.run_batch("synthetic", INPUTS, idempotency_key=KEY, **options)

    return await asyncio.to_thread(run)


async def run_async(address: str, **options: Any) -> BatchView:
    async with AsyncClient(address) as client:
        return await client.run_batch("synthetic", INPUTS, idempotency_key=KEY, **options)


both_clients = pytest.mark.parametrize("run", [run_async, run_blocking], ids=["async", "blocking"])


@both_clients
async def test_a_run_returns_the_settled_batch_with_the_items_that_failed(control: Control, run: Any) -> None:
    working = asyncio.create_task(work(control))
    batch = await run(control.opened.address, title="Night", target=Target("course", "7"), priority=3)
    await working

    assert (batch.state, batch.settled, batch.progress) == (BatchState.PARTIALLY_FAILED, True, 100)
    assert batch.counters == BatchCounters(0, 0, 2, 1, 0)
    assert (batch.title, batch.target) == ("Night", Target("course", "7"))
    (failed,) = batch.failed_items
    assert (failed.number, failed.job.state, failed.job.error.code) == (2, JobState.FAILED, "INPUT_BROKEN")
    assert (failed.job.batch_id, failed.job.batch_item) == (batch.batch_id, 2)
    again = await run(control.opened.address, title="Night", target=Target("course", "7"), priority=3)
    assert again == batch


@both_clients
async def test_a_run_whose_time_is_over_names_the_batch_that_goes_on(control: Control, run: Any) -> None:
    with pytest.raises(BatchUnfinished) as unfinished:
        await run(control.opened.address, within=timedelta(seconds=0.3))
    batch = unfinished.value.batch
    assert (batch.state, batch.counters.waiting) == (BatchState.QUEUED, 3)
    with pytest.raises(errors.IdempotencyKeyReused) as reused:
        await run(control.opened.address, title="other")
    assert reused.value.batch_id == batch.batch_id


async def test_the_client_for_asyncio_follows_a_batch_from_its_creation_to_its_end(control: Control) -> None:
    async with AsyncClient(control.opened.address) as client:
        estimate = await client.estimate_batch("image_render", 30)
        assert (estimate.cost, estimate.work_time) == (Decimal("0.60"), timedelta(seconds=90))
        created = await client.create_batch("synthetic", [b"{}", *INPUTS[1:]], labels={"night": "bad"})
        assert (created.size, created.replayed, created.failed_items) == (3, False, None)
        batch_id = created.batch_id
        await work(control)
        updates = [each async for each in client.watch_batch(batch_id)]
        told = [each.what for each in updates if isinstance(each.what, BatchEvent)]
        assert [each.number for each in told] == [*range(1, 7)]
        assert [each.item for each in told if each.error] == [2]

        retried = await client.retry_batch_items(batch_id, [2])
        assert (retried.count, retried.batch.state) == (1, BatchState.QUEUED)
        with pytest.raises(TimeOver):
            async for _ in client.watch_batch(batch_id, within=timedelta(seconds=0.2)):
                pass
        await batches.end(control.transactions, batch_id, {2: SUCCESS})
        rest = [each.what async for each in client.watch_batch(batch_id, cursor=updates[-1].cursor)]
        assert rest[-1] == [each.what async for each in client.watch_batch(batch_id, after=9)][-1]

        items = [each async for each in client.batch_items(batch_id, page_size=1)]
        assert [(each.number, len(each.earlier_job_ids), each.attempt_count) for each in items] == [
            (1, 0, 1),
            (2, 1, 2),
            (3, 0, 1),
        ]
        assert await client.cancel_jobs(batch_id=batch_id, dry_run=True) == 0
        assert len([each async for each in client.list(batch_id=batch_id)]) == 4
        assert (await client.select_batch_items(batch_id, [3])).state is BatchState.SELECTED
        for state in (BatchState.EXPORTED, BatchState.STORED):
            assert (await client.advance_batch(batch_id, state)).state is state
        with pytest.raises(errors.BatchStateConflict):
            await client.cancel_batch(batch_id)
        with pytest.raises(errors.BatchStateConflict):
            await client.retry_batch_items(batch_id)
        assert [each.batch_id async for each in client.batches(states=[BatchState.STORED])] == [batch_id]


async def test_the_blocking_client_does_the_same(control: Control) -> None:
    def create() -> BatchId:
        with Client(control.opened.address) as client:
            assert client.estimate_batch("synthetic", 3).cost == 0
            return client.create_batch("synthetic", iter(INPUTS)).batch_id

    batch_id = await asyncio.to_thread(create)
    await work(control)

    def judge() -> None:
        with Client(control.opened.address) as client:
            assert client.settled_batch(batch_id).state is BatchState.PARTIALLY_FAILED
            told = [each.what for each in client.watch_batch(batch_id, after=3)]
            assert [each.item for each in told if isinstance(each, BatchEvent)] == [2, 3, 0]
            failed = list(client.batch_items(batch_id, states=[JobState.FAILED]))
            assert [each.number for each in failed] == [2]
            assert client.select_batch_items(batch_id, [1, 3]).state is BatchState.SELECTED
            assert client.advance_batch(batch_id, BatchState.EXPORTED).state is BatchState.EXPORTED
            with pytest.raises(errors.BatchStateConflict):
                client.retry_batch_items(batch_id)
            with pytest.raises(ValueError, match="at least one item"):
                client.retry_batch_items(batch_id, [])
            other = client.create_batch("synthetic", INPUTS)
            assert client.cancel_batch(other.batch_id).state is BatchState.CANCELLED
            assert client.batch(other.batch_id).counters.skipped == 3
            assert [each.batch_id for each in client.batches(page_size=1)] == [other.batch_id, batch_id]
            with pytest.raises(errors.BatchNotFound):
                client.batch(BatchId(failed[0].job.job_id))

    await asyncio.to_thread(judge)
