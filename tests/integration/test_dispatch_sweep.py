"""The sweep on real servers: whatever Redis loses is sent again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from redis.asyncio import Redis

from job_api.loops.dispatch_sweep import DispatchSweep
from job_api.loops.outbox_dispatcher import OutboxDispatcher
from shared.storage.transactions import Transactions
from shared.streams.lease_streams import LeaseStreams
from tests.support.database_time import DatabaseTime
from tests.support.redis_keys import wipe
from tests.support.storage import STREAM, a_job, a_lease

UNCLAIMED_AGE = timedelta(seconds=30)
OLDER = timedelta(seconds=31)


@pytest.fixture
def dispatcher(transactions: Transactions, streams: LeaseStreams) -> OutboxDispatcher:
    return OutboxDispatcher(transactions, streams)


@pytest.fixture
def sweep(transactions: Transactions, streams: LeaseStreams) -> DispatchSweep:
    return DispatchSweep(transactions, streams, unclaimed_age=UNCLAIMED_AGE)


async def length(streams: LeaseStreams) -> int | None:
    return (await streams.depths([STREAM]))[STREAM].length


async def test_jobs_of_a_wiped_redis_are_sent_again_at_once(
    *,
    transactions: Transactions,
    streams: LeaseStreams,
    dispatcher: OutboxDispatcher,
    sweep: DispatchSweep,
    redis: Redis,
    redis_prefix: str,
) -> None:
    job_ids = [await a_job(transactions) for _ in range(3)]
    await dispatcher.step()
    await wipe(redis, redis_prefix)

    assert await sweep.step() is False
    await dispatcher.step()

    assert [each.job_id for each in await streams.take([(STREAM, 9)], "reader")] == job_ids


async def test_a_lost_group_is_made_again_and_loses_nothing(
    *,
    transactions: Transactions,
    streams: LeaseStreams,
    dispatcher: OutboxDispatcher,
    sweep: DispatchSweep,
    redis: Redis,
    redis_prefix: str,
) -> None:
    job_id = await a_job(transactions)
    await dispatcher.step()
    await redis.xgroup_destroy(f"{redis_prefix}lease:{{drill}}:synthetic:1.1:2", "workers")

    await sweep.step()

    assert [each.job_id for each in await streams.take([(STREAM, 9)], "reader")] == [job_id]


async def test_rows_that_nobody_claims_are_sent_again_after_the_age_and_not_before(
    transactions: Transactions,
    streams: LeaseStreams,
    dispatcher: OutboxDispatcher,
    sweep: DispatchSweep,
    database_time: DatabaseTime,
) -> None:
    job_id = await a_job(transactions)
    await dispatcher.step()
    await streams.settle(await streams.take([(STREAM, 9)], "crashed"))

    await sweep.step()
    await dispatcher.step()
    assert await length(streams) == 0

    await database_time.jump(OLDER)
    await sweep.step()
    await dispatcher.step()
    assert [each.job_id for each in await streams.take([(STREAM, 9)], "reader")] == [job_id]


@pytest.mark.parametrize(("demand", "sent_again"), [(0, False), (1, True)])
async def test_old_rows_wait_on_while_all_executors_are_busy(
    *,
    transactions: Transactions,
    streams: LeaseStreams,
    dispatcher: OutboxDispatcher,
    sweep: DispatchSweep,
    database_time: DatabaseTime,
    demand: int,
    sent_again: bool,
) -> None:
    await a_job(transactions)
    await dispatcher.step()
    await database_time.jump(OLDER)
    await streams.tell_demand("worker", {STREAM: demand})

    await sweep.step()
    await dispatcher.step()

    assert await length(streams) == 1 + sent_again


async def test_a_claimed_job_is_never_sent_again(
    *,
    transactions: Transactions,
    streams: LeaseStreams,
    dispatcher: OutboxDispatcher,
    sweep: DispatchSweep,
    database_time: DatabaseTime,
    redis: Redis,
    redis_prefix: str,
) -> None:
    job_id = await a_job(transactions)
    await dispatcher.step()
    await a_lease(transactions, job_id=job_id)
    await wipe(redis, redis_prefix)
    await database_time.jump(OLDER)

    await sweep.step()
    await dispatcher.step()

    assert await length(streams) is None
