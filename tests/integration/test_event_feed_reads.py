"""How the feed of events is read: by indexes, and once for all who watch it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from job_api.loops.event_feed import EventFeed
from job_api.operations.event_watching import EventSubscription
from job_api.operations.subscriptions import EndReason
from job_api.operations.watch_events import WatchEvents
from shared.domain.errors import InvalidInput
from shared.storage import event_feed
from shared.storage.database import open_engine
from shared.storage.transactions import Transactions
from tests.support.counted_transactions import CountedTransactions
from tests.support.outgoing_events import emit_and_number, emit_many, number
from tests.support.storage import a_job, opened

EVENTS = 300_000
WATCHERS = 1_000

_FILL = sa.text(f"""
insert into outbox (
    event_type, aggregate_type, aggregate_id, dedupe_key, payload, create_time, available_time, state,
    delivered_time, feed_number)
select
    case when n % 10000 = 0 then 'job.failed' else 'job.succeeded' end, 'job', gen_random_uuid(),
    format('filled:%s', n), '{{}}', t.now, t.now,
    case when n < {EVENTS} - 500 then 'delivered' else 'pending' end, t.now,
    case when n < {EVENTS} - 300 then n end
from generate_series(1, {EVENTS}) as n cross join (select engine_time() as now) t
""")
_CASES: dict[str, tuple[sa.TextClause, dict[str, Any], str]] = {
    "behind a number": (event_feed._AFTER, {"number": 1_000, "limit": 50}, "outbox_events_by_number"),
    "of a rare type": (
        event_feed._AFTER_OF_TYPES,
        {"number": 1_000, "limit": 50, "event_types": ["job.failed", "batch.finished"]},
        "outbox_events_by_type",
    ),
    "what has no number": (
        event_feed._NUMBER,
        {"last_number": EVENTS, "limit": 100},
        "outbox_events_unnumbered",
    ),
    "the oldest": (
        event_feed._REMOVE,
        {"age": timedelta(0), "limit": 100},
        "outbox_events_by_number",
    ),
}


async def test_every_statement_about_the_feed_reads_no_more_of_it_than_it_returns(database_url: str) -> None:
    async with open_engine(database_url, pool_size=1, command_seconds=120) as engine:
        transactions = Transactions(engine)
        async with transactions.begin() as transaction:
            await transaction.connection.execute(_FILL)
        async with transactions.begin() as transaction:
            await transaction.connection.execute(sa.text("analyze outbox"))
            await transaction.connection.execute(sa.text("set local enable_seqscan = on"))
            for name, (statement, parameters, index) in _CASES.items():
                explained = sa.text(f"explain (analyze, costs off, timing off) {statement}")
                rows = (await transaction.connection.execute(explained, parameters)).scalars().all()
                text = "\n".join(rows)
                assert index in text, f"{name}:\n{text}"
                assert "Seq Scan on outbox" not in text, f"{name}:\n{text}"
                assert "Rows Removed by Filter" not in text, f"{name}:\n{text}"


@pytest.fixture
async def counted(database_url: str) -> AsyncIterator[CountedTransactions]:
    async with opened(database_url) as transactions:
        yield CountedTransactions(transactions._engine)


def a_feed(transactions: Transactions) -> EventFeed:
    return EventFeed(
        transactions, slow_after=timedelta(seconds=60), monotonic=time.monotonic, wake=asyncio.Event()
    )


async def test_a_thousand_watchers_cost_one_read_and_each_gets_every_event_once(
    counted: CountedTransactions,
) -> None:
    job_id = await a_job(counted)
    feed = a_feed(counted)
    watches = [EventSubscription(0, frozenset()) for _ in range(WATCHERS)]
    for each in watches:
        feed.join(each)
    await feed.step()
    for turn in range(3):
        await emit_many(counted, job_id, turn * 20 + 1, turn * 20 + 20)
        await number(counted)
        before = counted.begun
        assert await feed.step() is False
        assert counted.begun - before == 1
    for each in watches:
        taken = [(await each.take(keep_alive_seconds=5)).position for _ in range(60)]
        assert taken == list(range(1, 61))


async def test_a_watch_that_catches_up_does_not_hold_back_those_at_the_end(
    counted: CountedTransactions,
) -> None:
    job_id = await a_job(counted)
    await emit_many(counted, job_id, 1, 2_000)
    await number(counted)
    feed = a_feed(counted)
    behind, ahead = EventSubscription(0, frozenset({"batch.finished"})), EventSubscription(2_000, frozenset())
    feed.join(behind)
    feed.join(ahead)
    await emit_and_number(counted, job_id, "batch.finished")

    steps = 0
    while not ahead.position > 2_000:
        await feed.step()
        steps += 1
    assert steps <= 2
    while await feed.step():
        pass
    assert behind.position == ahead.position == 2_001
    assert (await behind.take(keep_alive_seconds=5)).position == 2_001


async def test_a_watch_whose_events_were_removed_before_it_read_them_is_told_so(
    counted: CountedTransactions,
) -> None:
    job_id = await a_job(counted)
    await emit_many(counted, job_id, 1, 10)
    await number(counted)
    feed = a_feed(counted)
    late, oldest = EventSubscription(3, frozenset()), EventSubscription(0, frozenset())
    feed.join(late)
    feed.join(oldest)
    async with counted.begin() as transaction:
        await transaction.connection.execute(sa.text("delete from outbox where feed_number <= 5"))
        await transaction.connection.execute(sa.text("update event_feed set removed_number = 5"))
    while await feed.step():
        pass
    with pytest.raises(InvalidInput, match="cursor"):
        await late.take(keep_alive_seconds=5)
    assert (await oldest.take(keep_alive_seconds=5)).position == 6


async def test_a_watch_that_comes_while_the_service_stops_is_sent_away_at_once(
    counted: CountedTransactions,
) -> None:
    feed = a_feed(counted)
    await feed.drain()
    watch = WatchEvents(counted, feed, keep_alive=timedelta(seconds=60))
    assert [each.update async for each in watch("", event_types=frozenset())] == [EndReason.DRAINING]
