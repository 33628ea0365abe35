"""Outbox rows that can't be delivered: they are tried three times, then dead, and stop nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
import structlog
from redis.asyncio import Redis

from job_api.loops.dispatch_sweep import DispatchSweep
from job_api.loops.event_dispatcher import EventDispatcher
from job_api.loops.event_numbering import EventNumbering
from job_api.loops.outbox_dispatcher import OutboxDispatcher
from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import JobId, JobType, QueueName, StreamName
from shared.domain.jobs import JobState
from shared.domain.queues import StreamKey
from shared.storage.transactions import Transactions
from shared.streams.event_copy import EventCopy
from shared.streams.lease_streams import LeaseStreams
from tests.support.storage import STREAM, a_job, job_in, the_job

OTHER = StreamKey(QueueName("drill"), JobType("synthetic"), 1, 1, 0).name
LEASE_KEY = "lease:{drill}:synthetic:1.1:2"


async def rows(transactions: Transactions, statement: str, **parameters: Any) -> list[Any]:
    async with transactions.begin() as transaction:
        return list(await transaction.connection.execute(sa.text(statement), parameters))


async def dispatch_row(transactions: Transactions, job_id: JobId) -> Any:
    (row,) = await rows(
        transactions,
        "select state, tries, last_error_code, last_error_message from outbox where aggregate_id = :job_id",
        job_id=job_id,
    )
    return row


async def try_again(transactions: Transactions, dispatcher: OutboxDispatcher) -> None:
    """Let the wait between tries be over, and dispatch."""
    due = "update outbox set available_time = engine_time() where state = 'pending' returning 1"
    await rows(transactions, due)
    assert await dispatcher.step() is False


async def taken(streams: LeaseStreams, stream: StreamName) -> list[JobId]:
    entries = await streams.take([(stream, 100)], "reader")
    await streams.settle(entries)
    return [each.job_id for each in entries]


async def test_a_row_whose_stream_is_unusable_is_dead_after_three_tries_and_others_go_on(
    transactions: Transactions, streams: LeaseStreams, redis: Redis, redis_prefix: str
) -> None:
    await redis.set(redis_prefix + LEASE_KEY, "something else")
    dispatcher = OutboxDispatcher(transactions, streams)
    stuck = await a_job(transactions)
    tries = []
    for _ in range(3):
        other = await a_job(transactions, stream=OTHER, priority=0)
        await try_again(transactions, dispatcher)
        assert await taken(streams, OTHER) == [other]
        row = await dispatch_row(transactions, stuck)
        tries.append((row.state, row.tries, row.last_error_code))
    assert tries == [("pending", 1, "WRONGTYPE"), ("pending", 2, "WRONGTYPE"), ("dead", 3, "WRONGTYPE")]
    assert row.last_error_message.startswith("WRONGTYPE ")

    assert await dispatcher.step() is False
    assert (await dispatch_row(transactions, stuck)).tries == 3
    assert (await the_job(transactions, stuck)).state is JobState.QUEUED


async def test_an_unusable_stream_that_is_put_right_gets_its_rows(
    transactions: Transactions, streams: LeaseStreams, redis: Redis, redis_prefix: str
) -> None:
    await redis.set(redis_prefix + LEASE_KEY, "something else")
    dispatcher = OutboxDispatcher(transactions, streams)
    jobs = [await a_job(transactions) for _ in range(2)]
    await dispatcher.step()
    assert sorted([(await dispatch_row(transactions, each)).tries for each in jobs]) == [0, 1]

    await redis.delete(redis_prefix + LEASE_KEY)
    await try_again(transactions, dispatcher)
    assert set(await taken(streams, STREAM)) == set(jobs)


async def test_a_row_of_which_no_entry_can_be_made_is_dead_alone(
    transactions: Transactions, streams: LeaseStreams
) -> None:
    nameless, good = await a_job(transactions), await a_job(transactions)
    await rows(
        transactions,
        "update outbox set payload = payload - 'job_type' where aggregate_id = :job_id returning 1",
        job_id=nameless,
    )
    dispatcher = OutboxDispatcher(transactions, streams)
    await dispatcher.step()
    assert await taken(streams, STREAM) == [good]
    for _ in range(2):
        await try_again(transactions, dispatcher)
    row = await dispatch_row(transactions, nameless)
    assert (row.state, row.last_error_code) == ("dead", "UNREADABLE")


async def test_a_job_whose_dispatch_is_dead_can_be_cancelled_and_its_row_is_gone(
    transactions: Transactions, streams: LeaseStreams
) -> None:
    job_id = await a_job(transactions)
    await rows(transactions, "update outbox set state = 'dead' returning 1")
    async with transactions.begin() as transaction:
        assert await transaction.states.cancel_waiting([job_id]) == {job_id}
    assert (await the_job(transactions, job_id)).state is JobState.CANCELLED
    left = await rows(transactions, "select event_type from outbox where aggregate_id = :id", id=job_id)
    assert [row.event_type for row in left] == ["job.cancelled"]


async def test_redis_being_away_is_no_try(
    transactions: Transactions, streams: LeaseStreams, redis: Redis
) -> None:
    job_id = await a_job(transactions)
    dispatcher = OutboxDispatcher(transactions, streams)
    await redis.config_set("maxmemory", 1)
    try:
        for _ in range(4):
            with pytest.raises(PlatformUnavailable):
                await dispatcher.step()
    finally:
        await redis.config_set("maxmemory", 0)
    row = await dispatch_row(transactions, job_id)
    assert (row.state, row.tries) == ("pending", 0)


async def test_the_sweep_takes_back_what_an_unusable_stream_had(
    transactions: Transactions, streams: LeaseStreams, redis: Redis, redis_prefix: str
) -> None:
    job_id = await a_job(transactions)
    await OutboxDispatcher(transactions, streams).step()
    await redis.set(redis_prefix + LEASE_KEY, "something else")
    await DispatchSweep(transactions, streams, unclaimed_age=timedelta(0)).step()
    assert (await dispatch_row(transactions, job_id)).state == "pending"


async def test_an_event_of_an_unknown_type_is_set_aside_and_blocks_nothing(
    transactions: Transactions, redis: Redis, redis_prefix: str
) -> None:
    first = await job_in(transactions, JobState.SUCCEEDED)
    await rows(
        transactions,
        "update outbox set event_type = 'job.admired' where aggregate_id = :job_id returning 1",
        job_id=first,
    )
    second = await job_in(transactions, JobState.SUCCEEDED)
    await EventNumbering(transactions, wake=()).step()
    events = EventDispatcher(transactions, EventCopy(redis, prefix=redis_prefix))
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            assert await events.step() is False
    copied: Any = await redis.xrange(f"{redis_prefix}events")
    assert [fields[b"dedupe_key"].decode() for _, fields in copied] == [f"job.succeeded:{second}:1"]
    assert [(line["event"], line["event_type"]) for line in lines] == [("event.set_aside", "job.admired")]
    (row,) = await rows(transactions, "select state from outbox where event_type = 'job.admired'")
    assert row.state == "pending"


async def test_a_copy_of_events_whose_key_holds_something_else_waits(
    transactions: Transactions, redis: Redis, redis_prefix: str
) -> None:
    """It says nothing about any event, so none of them is dead."""
    await job_in(transactions, JobState.CANCELLED)
    await redis.set(f"{redis_prefix}events", "something else")
    await EventNumbering(transactions, wake=()).step()
    events = EventDispatcher(transactions, EventCopy(redis, prefix=redis_prefix))
    for _ in range(4):
        with pytest.raises(PlatformUnavailable):
            await events.step()
    await redis.delete(f"{redis_prefix}events")
    await events.step()
    assert await redis.xlen(f"{redis_prefix}events") == 1
