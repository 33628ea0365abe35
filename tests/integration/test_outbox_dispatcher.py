"""The dispatcher on real servers: at least once, in turns, up to the mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from redis.asyncio import Redis

from job_api.loops.outbox_dispatcher import MARK_MIN, OutboxDispatcher
from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import Owner, StreamName
from shared.storage.dispatch_statements import OWNERS_LOOKED_AT_MAX, OWNERS_PER_STREAM_MAX
from shared.storage.transactions import Transactions
from shared.streams.connection import open_redis
from shared.streams.lease_streams import Appended, Entry, LeaseStreams, WaitingAttempt
from tests.support.database_time import DatabaseTime
from tests.support.dispatching import jobs_of, take
from tests.support.storage import STREAM, a_job, a_session, claim, claim_request, new_job, opened

URGENT = StreamName("drill:synthetic:1.1:0")


class DyingStreams(LeaseStreams):
    """Appends for real; then the process dies before it can commit."""

    async def append(self, attempts: Sequence[WaitingAttempt]) -> Appended:
        await super().append(attempts)
        raise ProcessDied


class ProcessDied(Exception):
    pass


async def test_a_due_job_is_delivered_once(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    job_id = await a_job(transactions, priority=40)

    assert await dispatcher.step() is False
    assert await dispatcher.step() is False

    (entry,) = await take(streams)
    assert (entry.job_id, entry.attempt, entry.job_type, entry.queue, entry.priority) == (
        job_id,
        1,
        "synthetic",
        "drill",
        40,
    )


async def test_a_job_that_is_not_due_is_not_delivered(
    transactions: Transactions,
    streams: LeaseStreams,
    dispatcher: OutboxDispatcher,
    database_time: DatabaseTime,
) -> None:
    job_id = await a_job(transactions, run_time=datetime.now(UTC) + timedelta(hours=1))
    await dispatcher.step()
    assert await take(streams) == []

    await database_time.jump(timedelta(hours=2))
    await dispatcher.step()
    assert [each.job_id for each in await take(streams)] == [job_id]


async def test_a_crash_between_append_and_commit_appends_again_and_one_claim_wins(
    transactions: Transactions,
    streams: LeaseStreams,
    dispatcher: OutboxDispatcher,
    redis: Redis,
    redis_prefix: str,
) -> None:
    job_id = await a_job(transactions)
    with pytest.raises(ProcessDied):
        await OutboxDispatcher(transactions, DyingStreams(redis, prefix=redis_prefix)).step()
    await dispatcher.step()

    entries = await take(streams)
    assert [each.job_id for each in entries] == [job_id, job_id]
    session = await a_session(transactions)
    grants = [
        len(await claim(transactions, claim_request(session, each.job_id, attempt=each.attempt)))
        for each in entries
    ]
    assert grants == [1, 0]


async def test_an_empty_stream_is_filled_to_the_lowest_mark_while_no_worker_tells_its_demand(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    await jobs_of(transactions, "owner", 3 * MARK_MIN)

    assert await dispatcher.step() is True
    assert await dispatcher.step() is False

    assert (await streams.depths([STREAM]))[STREAM].length == MARK_MIN


async def test_the_mark_follows_demand_and_room_is_filled_again_in_order(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    created = await jobs_of(transactions, "owner", 30)
    await streams.tell_demand("worker", {STREAM: 20})

    await dispatcher.step()
    first = await streams.take([(STREAM, 5)], "reader")
    assert (await streams.depths([STREAM]))[STREAM].length == 20
    await streams.settle(first)
    await dispatcher.step()

    rest = await take(streams)
    assert [each.job_id for each in first + rest] == created[:25]


async def test_a_full_stream_holds_up_no_other(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    await jobs_of(transactions, "owner", 2 * MARK_MIN)
    await dispatcher.step()
    urgent = await a_job(transactions, stream=URGENT, priority=0)

    await dispatcher.step()

    assert [each.job_id for each in await take(streams, URGENT)] == [urgent]


async def test_owners_take_turns_however_long_ones_backlog_is(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    large = await jobs_of(transactions, "a-large", 50)
    small = await jobs_of(transactions, "small", 3)

    await dispatcher.step()

    delivered = [each.job_id for each in await take(streams)]
    assert delivered == [large[0], small[0], large[1], small[1], large[2], small[2], large[3], large[4]]


async def test_turns_go_on_where_the_last_step_stopped(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    owner_of = {
        job_id: owner for owner in ("a", "b", "c") for job_id in await jobs_of(transactions, owner, 20)
    }
    served: list[str] = []
    for _ in range(6):  # 8 places for 3 owners: a step never ends with a whole round
        await dispatcher.step()
        served += [owner_of[each.job_id] for each in await take(streams)]

    assert served == ["a", "b", "c"] * 16


async def test_no_owner_is_left_out_when_there_are_more_than_one_step_looks_at(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    owners = [f"owner-{number:03}" for number in range(2 * OWNERS_PER_STREAM_MAX + 3)]
    owner_of = {job_id: owner for owner in owners for job_id in await jobs_of(transactions, owner, 3)}
    await streams.tell_demand("worker", {STREAM: 25})

    served: Counter[str] = Counter()
    for _ in range(3):
        await dispatcher.step()
        served.update(owner_of[each.job_id] for each in await take(streams))

    assert served == Counter(owners) + Counter(owners[:8])


async def test_owners_whose_jobs_are_not_due_keep_nobody_waiting(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    """One step finds who is due among hundreds, at whatever urgency, before and behind whose turn it was."""
    later = datetime.now(UTC) + timedelta(hours=1)
    early = [
        new_job(owner=Owner(f"early-{number:03}"), run_time=later, priority=priority)
        for number in range(OWNERS_LOOKED_AT_MAX - 3)
        for priority in (45, 50)
    ]
    async with transactions.begin() as transaction:
        await transaction.creation.create_jobs(early)
    due = [await a_job(transactions, owner=Owner(name), priority=60) for name in ("a", "early-200", "late")]

    await dispatcher.step()
    assert [each.job_id for each in await take(streams)] == due

    more = [await a_job(transactions, owner=Owner(name)) for name in ("a", "early-200", "late")]
    await dispatcher.step()
    assert [each.job_id for each in await take(streams)] == more


async def test_the_next_step_goes_on_behind_all_that_one_looked_at(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    async with transactions.begin() as transaction:
        await transaction.creation.create_jobs(
            [
                new_job(owner=Owner(f"early-{number:04}"), run_time=later)
                for number in range(2 * OWNERS_LOOKED_AT_MAX - 1)
            ]
        )
    due = await a_job(transactions, owner=Owner("late"))

    await dispatcher.step()
    assert await take(streams) == []
    await dispatcher.step()
    assert [each.job_id for each in await take(streams)] == [due]


async def test_within_an_owner_the_more_urgent_goes_first_then_the_oldest(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    (last,) = await jobs_of(transactions, "owner", 1, priority=69)
    first, second = await jobs_of(transactions, "owner", 2, priority=41)

    await dispatcher.step()

    assert [each.job_id for each in await take(streams)] == [first, second, last]


async def test_two_dispatchers_deliver_each_row_once(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    created = await jobs_of(transactions, "owner", 6)
    async with transactions.begin() as transaction:
        held = await transaction.dispatches.lock_due({STREAM: [Owner("owner")]}, {STREAM: 2})
        await dispatcher.step()
        assert [each.job_id for each in await take(streams)] == created[2:]

    await dispatcher.step()
    assert [each.job_id for each in await take(streams)] == [each.job_id for each in held]


async def test_rows_that_a_frozen_dispatcher_holds_are_free_again_after_its_time(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher
) -> None:
    async def freeze(delivered: list[Entry]) -> None:
        """Hold the row until others have delivered it, then come to."""
        async with transactions.begin() as frozen:
            await frozen.repeatable(ended_after_silence=timedelta(seconds=0.1))
            await frozen.dispatches.lock_due({STREAM: [Owner("owner")]}, {STREAM: 1})
            while not delivered:
                await dispatcher.step()
                delivered += await take(streams)

    job_id = await a_job(transactions)
    delivered: list[Entry] = []
    with pytest.raises(PlatformUnavailable):
        await freeze(delivered)

    assert [each.job_id for each in delivered] == [job_id]


async def test_only_a_transaction_that_can_be_repeated_does_not_wait_for_the_disk(database_url: str) -> None:
    show = sa.text("show synchronous_commit")
    async with opened(database_url, pool_size=1) as transactions:
        async with transactions.begin() as transaction:
            await transaction.connection.execute(sa.text("set synchronous_commit = on"))
        async with transactions.begin() as transaction:
            await transaction.repeatable(ended_after_silence=timedelta(seconds=10))
            assert (await transaction.connection.execute(show)).scalar_one() == "off"
        async with transactions.begin() as transaction:
            assert (await transaction.connection.execute(show)).scalar_one() == "on"


async def test_with_redis_away_rows_wait_as_they_are(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher, redis_prefix: str
) -> None:
    job_id = await a_job(transactions)
    async with open_redis("redis://127.0.0.1:1/0") as nobody:
        with pytest.raises(PlatformUnavailable):
            await OutboxDispatcher(transactions, LeaseStreams(nobody, prefix=redis_prefix)).step()

    await dispatcher.step()

    assert [each.job_id for each in await take(streams)] == [job_id]
