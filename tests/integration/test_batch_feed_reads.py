"""How watched batches are read: once for all who watch them on a replica."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from job_api.loops.batch_feed import BatchFeed
from job_api.operations.batch_watching import BatchSubscription
from shared.domain.batches import BatchEvent
from shared.domain.errors import BatchNotFound
from shared.domain.identity import BatchId
from shared.runtime.ids import new_id
from shared.storage.transactions import Transactions
from tests.support.batches import FAILURE, SUCCESS, a_batch, end
from tests.support.counted_transactions import CountedTransactions
from tests.support.storage import opened

WATCHERS = 1_000


@pytest.fixture
async def counted(database_url: str) -> AsyncIterator[CountedTransactions]:
    async with opened(database_url) as transactions:
        yield CountedTransactions(transactions._engine)


def a_feed(transactions: Transactions) -> BatchFeed:
    return BatchFeed(
        transactions, slow_after=timedelta(seconds=60), monotonic=time.monotonic, wake=asyncio.Event()
    )


async def events_in(watch: BatchSubscription, count: int) -> list[int]:
    numbers = list[int]()
    while len(numbers) < count:
        update = (await watch.take(keep_alive_seconds=5)).update
        if isinstance(update, BatchEvent):
            numbers.append(update.number)
    return numbers


async def test_a_thousand_watchers_cost_one_read_and_each_gets_every_event_once(
    counted: CountedTransactions,
) -> None:
    batch_ids = [await a_batch(counted, 30) for _ in range(2)]
    feed = a_feed(counted)
    watches = [BatchSubscription(batch_ids[number % 2], 0) for number in range(WATCHERS)]
    for each in watches:
        feed.join(each)
    await feed.step()
    for turn in range(3):
        items = range(turn * 5 + 1, turn * 5 + 6)
        for batch_id in batch_ids:
            await end(counted, batch_id, {item: FAILURE if item == 2 else SUCCESS for item in items})
        await feed.poll()
        before = counted.begun
        assert await feed.step() is False
        assert counted.begun - before == 1
    for each in watches:
        assert await events_in(each, 17) == list(range(1, 18))


async def test_a_poll_without_news_costs_one_read_and_tells_nobody_anything(
    counted: CountedTransactions,
) -> None:
    watches = [BatchSubscription(await a_batch(counted, 1), 1) for _ in range(20)]
    feed = a_feed(counted)
    for each in watches:
        feed.join(each)
    await feed.step()
    for each in watches:
        await each.take(keep_alive_seconds=5)  # the counters, once
    before = counted.begun
    await feed.poll()
    await feed.step()
    assert counted.begun - before == 1
    for each in watches:
        assert (await each.take(keep_alive_seconds=0)).position == 1


async def test_a_watch_that_catches_up_does_not_hold_back_those_at_the_end(
    counted: CountedTransactions,
) -> None:
    batch_id = await a_batch(counted, 1_000)
    for first in range(1, 901, 300):
        await end(counted, batch_id, dict.fromkeys(range(first, first + 300), SUCCESS))
    feed = a_feed(counted)
    behind, ahead = BatchSubscription(batch_id, 0), BatchSubscription(batch_id, 902)
    for each in (behind, ahead):
        feed.join(each)
    await end(counted, batch_id, {901: SUCCESS})
    steps = 0
    while ahead.position < 903:
        await feed.step()
        steps += 1
    assert steps <= 2
    assert behind.position < 903


async def test_a_hint_names_batches_and_ids_of_jobs_beside_them_do_no_harm(
    counted: CountedTransactions,
) -> None:
    batch_id = await a_batch(counted, 2)
    feed = a_feed(counted)
    assert not feed.is_watched()
    watch = BatchSubscription(batch_id, 1)
    feed.join(watch)
    await feed.step()
    await end(counted, batch_id, {1: SUCCESS})
    feed.note(frozenset({BatchId(new_id())}))
    assert await feed.step() is False
    assert (feed.is_watched(), watch.position) == (True, 1)
    feed.note(frozenset({batch_id, BatchId(new_id())}))
    await feed.step()
    assert watch.position == 3


async def test_a_batch_that_is_gone_ends_its_watches(counted: CountedTransactions) -> None:
    feed = a_feed(counted)
    watch = BatchSubscription(BatchId(new_id()), 0)
    feed.join(watch)
    await feed.step()
    with pytest.raises(BatchNotFound):
        await watch.take(keep_alive_seconds=5)
