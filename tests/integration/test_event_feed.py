"""The feed of events: each once, in each job's order, whenever it was committed; on a real database."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa
from redis.asyncio import Redis

from job_api.loops.event_dispatcher import EventDispatcher
from job_api.loops.event_numbering import EVENTS_PER_STEP_MAX, EventNumbering
from job_api.loops.retention import Retention
from job_api.operations.list_events import ListEvents
from shared.domain.errors import InvalidInput
from shared.domain.identity import JobId
from shared.domain.jobs import JobState
from shared.storage.event_feed import FeedEvent
from shared.storage.transactions import Transactions
from shared.streams.event_copy import EventCopy
from tests.support.database_time import DatabaseTime
from tests.support.outgoing_events import emit, emit_and_number, number
from tests.support.storage import a_job, job_in, opened

WRITERS, TRANSACTIONS_EACH, JOBS = 12, 15, 8
COMMITS_PER_NUMBERING = 8
DAY = timedelta(days=1)

_HOLD = sa.text("select pg_sleep(random() * 0.01)")


class RolledBack(Exception):
    """A transaction that was not meant to last."""


async def read_on(
    transactions: Transactions, cursor: str = "", *, size: int = 50, event_types: Sequence[str] = ()
) -> tuple[list[FeedEvent], str]:
    """Read from a cursor to the end, and return the events with the cursor behind them."""
    list_events = ListEvents(transactions)
    events = list[FeedEvent]()
    while True:
        page = await list_events(cursor, size=size, event_types=frozenset(event_types))
        events += page.events
        cursor = page.next_cursor
        if not page.events:
            return events, cursor


def numbers(events: Sequence[FeedEvent]) -> list[int]:
    return [event.number for event in events]


def by_job(events: Sequence[FeedEvent]) -> dict[UUID, list[int]]:
    """The numbers that jobs gave to their events, in the order of the feed."""
    found = defaultdict[UUID, list[int]](list)
    for event in events:
        found[event.aggregate_id].append(json.loads(event.payload)["number"])
    return found


async def test_an_event_that_is_committed_late_comes_after_those_that_were_seen(
    transactions: Transactions,
) -> None:
    early, late = await a_job(transactions), await a_job(transactions)
    async with transactions.begin() as slow:
        await emit(slow, [late])
        await emit_and_number(transactions, early, "usage.recorded")
        seen, cursor = await read_on(transactions)
        assert [event.aggregate_id for event in seen] == [early]
    await number(transactions)

    seen, _ = await read_on(transactions, cursor)
    assert [event.aggregate_id for event in seen] == [late]


async def test_readers_see_each_event_once_and_in_its_jobs_order_while_writers_commit_out_of_order(
    database_url: str,
) -> None:
    async with opened(database_url, pool_size=WRITERS + 6) as transactions:
        job_ids = sorted([await a_job(transactions) for _ in range(JOBS)])
        committed, commits, done = list[int](), asyncio.Semaphore(0), asyncio.Event()
        writers = [
            asyncio.create_task(write(transactions, job_ids, random.Random(seed), committed, commits))
            for seed in range(WRITERS)
        ]
        numbering = [asyncio.create_task(number_along(transactions, commits)) for _ in range(3)]
        readers = [asyncio.create_task(read_until(done, transactions, size=size)) for size in (1, 7, 50)]
        await asyncio.gather(*writers)
        for each in numbering:
            each.cancel()
        await asyncio.wait(numbering)
        await number(transactions)
        done.set()
        stories = [await reader for reader in readers]
        rest, _ = await read_on(transactions)

    assert committed != sorted(committed), "no transaction was overtaken, so nothing was tried"
    for story in [*stories, rest]:
        assert numbers(story) == list(range(1, len(committed) + 1))
        for told in by_job(story).values():
            assert told == list(range(1, len(told) + 1))


async def write(
    transactions: Transactions,
    job_ids: Sequence[JobId],
    dice: random.Random,
    committed: list[int],
    commits: asyncio.Semaphore,
) -> None:
    """Let jobs emit in transactions that last differently long; a fifth of them is rolled back."""
    for _ in range(TRANSACTIONS_EACH):
        chosen = sorted(dice.sample(job_ids, 3))
        try:
            async with transactions.begin() as transaction:
                ids = list[int]()
                for job_id in chosen:
                    ids += await emit(transaction, [job_id])
                    await transaction.connection.execute(_HOLD)
                if dice.random() < 0.2:
                    raise RolledBack
            committed += ids
            commits.release()
        except RolledBack:
            pass


async def number_along(transactions: Transactions, commits: asyncio.Semaphore) -> None:
    """Number what a few transactions left together, several events of a job among it."""
    numbering = EventNumbering(transactions, wake=())
    while True:
        for _ in range(COMMITS_PER_NUMBERING):
            await commits.acquire()
        await numbering.step()


async def read_until(done: asyncio.Event, transactions: Transactions, *, size: int) -> list[FeedEvent]:
    """Read along, and to the end once all is written."""
    story, cursor, last = list[FeedEvent](), "", False
    while not last:
        last = done.is_set()
        events, cursor = await read_on(transactions, cursor, size=size)
        story += events
    return story


async def test_while_one_numbers_another_has_nothing_to_do_and_readers_see_none_of_it(
    transactions: Transactions,
) -> None:
    await job_in(transactions, JobState.SUCCEEDED)
    async with transactions.begin() as first:
        assert await first.event_feed.number_new(limit=10) == 1
        async with asyncio.timeout(5):
            assert await EventNumbering(transactions, wake=()).step() is False
        assert await read_on(transactions) == ([], "")
    events, _ = await read_on(transactions)
    assert [event.event_type for event in events] == ["job.succeeded"]


async def test_numbering_wakes_who_waits_for_events_and_comes_back_at_once_for_more(
    transactions: Transactions,
) -> None:
    woken = asyncio.Event()
    numbering = EventNumbering(transactions, wake=[woken])
    assert await numbering.step() is False
    assert not woken.is_set()
    jobs = [await a_job(transactions)]
    async with transactions.begin() as transaction:
        for _ in range(EVENTS_PER_STEP_MAX + 1):
            await emit(transaction, jobs)

    assert await numbering.step() is True
    assert woken.is_set()
    assert await numbering.step() is False
    events, _ = await read_on(transactions, size=1_000)
    assert by_job(events) == {jobs[0]: list(range(1, EVENTS_PER_STEP_MAX + 2))}


async def test_dispatches_are_in_no_feed_and_what_waits_for_redis_is(transactions: Transactions) -> None:
    ended = await job_in(transactions, JobState.FAILED)
    await a_job(transactions)
    await number(transactions)
    (event,), _ = await read_on(transactions)
    assert (event.event_type, event.aggregate_type, event.aggregate_id) == ("job.failed", "job", ended)
    assert event.dedupe_key == f"job.failed:{ended}:1"
    assert json.loads(event.payload) == {
        "job_id": str(ended),
        "job_type": "synthetic",
        "attempt": 1,
        "state": "FAILED",
        "error_code": "INPUT_BROKEN",
    }


async def test_a_reader_of_some_types_gets_them_only_and_its_cursor_passes_over_the_others(
    transactions: Transactions,
) -> None:
    job_id = await a_job(transactions)
    await emit_and_number(transactions, job_id, "job.failed", *["usage.recorded"] * 5, "batch.finished")
    events, cursor = await read_on(transactions, size=1, event_types=["batch.finished", "job.failed"])
    assert numbers(events) == [1, 7]
    await emit_and_number(transactions, job_id, *["usage.recorded"] * 3)

    none, behind = await read_on(transactions, cursor, event_types=["batch.finished"])
    assert none == []
    assert behind != cursor
    assert await read_on(transactions, behind) == ([], behind)


async def test_events_that_were_copied_long_ago_are_removed_and_a_cursor_before_them_is_refused(
    transactions: Transactions, database_time: DatabaseTime, redis: Redis, redis_prefix: str
) -> None:
    job_id = await a_job(transactions)
    await emit_and_number(transactions, job_id, *["job.failed"] * 3)
    (*_, last), cursor = await read_on(transactions)
    pages = [await ListEvents(transactions)("", size=size, event_types=frozenset()) for size in (1, 2, 3)]
    dispatcher = EventDispatcher(transactions, EventCopy(redis, prefix=redis_prefix))
    await dispatcher.step()
    await emit_and_number(transactions, job_id, "job.cancelled")
    retention = Retention(transactions, events_kept_for=10 * DAY)

    await database_time.jump(9 * DAY)
    await retention.step()
    assert len((await read_on(transactions))[0]) == 4
    await database_time.jump(2 * DAY)
    assert await retention.step() is False

    for kept in (await read_on(transactions), await read_on(transactions, cursor)):
        assert numbers(kept[0]) == [last.number + 1], "it was not copied, however old it is"
    for page in pages[:2]:
        with pytest.raises(InvalidInput, match="cursor"):
            await read_on(transactions, page.next_cursor)
    await read_on(transactions, pages[2].next_cursor)
    await dispatcher.step()
    await database_time.jump(11 * DAY)
    await retention.step()
    assert await read_on(transactions, kept[1]) == ([], kept[1])
    await emit_and_number(transactions, job_id, "job.failed")
    assert numbers((await read_on(transactions, kept[1]))[0]) == [5]


async def test_events_from_before_there_was_a_feed_are_in_it(transactions: Transactions) -> None:
    job_id = await job_in(transactions, JobState.SUCCEEDED)
    async with transactions.begin() as transaction:
        delivered = sa.text("""
            update outbox set state = 'delivered', delivered_time = engine_time()
            where event_type <> 'job.dispatch'""")
        await transaction.connection.execute(delivered)
    await number(transactions)
    events, _ = await read_on(transactions)
    assert [event.aggregate_id for event in events] == [job_id]
