"""Callers that go away in the middle of a call leave nothing behind in the service."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
import sqlalchemy as sa

from job_api.operations.subscriptions import Subscription
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support.control_service import Control, control_running

CALLS = 200
POOL_SIZE = 4
BLOCKED = (
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)
LIMIT_SECONDS = 20.0


@pytest.fixture
def servers(database_url: str, redis_url: str, redis_prefix: str) -> tuple[str, str, str]:
    return database_url, redis_url, redis_prefix


@asynccontextmanager
async def locked(control: Control, table: str) -> AsyncIterator[None]:
    """Let every statement that touches a table wait until the block ends."""
    async with control.transactions.begin() as transaction:
        await transaction.connection.execute(sa.text(f"lock table {table} in access exclusive mode"))
        yield


async def until_blocked(control: Control, count: int) -> None:
    """Wait until so many of the service's connections wait for a lock."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            async with control.transactions.begin() as transaction:
                [blocked] = (await transaction.connection.execute(sa.text(BLOCKED))).one()
            if blocked >= count:
                return
            await asyncio.sleep(0.02)


async def test_two_hundred_creations_cancelled_on_their_way_leave_the_pool_whole(
    servers: tuple[str, str, str],
) -> None:
    async with control_running(*servers, database_pool_size=POOL_SIZE) as control:
        first, second = range(CALLS // 2), range(CALLS // 2, CALLS)
        async with locked(control, "jobs"):
            await cancelled_when(until_blocked(control, 1), [creation(control, each) for each in first])
        await cancelled_at_any_time([creation(control, each) for each in second])

        await all_connections_work(control)
        made = await asyncio.gather(*(creation(control, each) for each in (*first, *second)))
        assert len({each.job.job_id for each in made}) == CALLS


async def test_two_hundred_watches_cancelled_on_their_way_leave_the_pool_whole_and_no_subscription(
    servers: tuple[str, str, str],
) -> None:
    async with control_running(*servers, database_pool_size=POOL_SIZE) as control:
        job_ids = [(await control.create()).job_id for _ in range(10)] * (CALLS // 20)
        async with locked(control, "jobs"):
            await cancelled_when(until_blocked(control, POOL_SIZE), [*map(control.watch, job_ids)])
        await cancelled_at_any_time([*map(control.watch, job_ids)])

        await all_connections_work(control)
        async with asyncio.timeout(LIMIT_SECONDS):
            while subscriptions():  # noqa: ASYNC110 - the end of a call at the service is no event of ours
                await asyncio.sleep(0.05)
        await control.stub.CancelJob(pb.CancelJobRequest(job_id=job_ids[0]))
        async with asyncio.timeout(LIMIT_SECONDS):
            updates = [each.WhichOneof("update") async for each in control.watch(job_ids[0])]
        assert updates == ["event", "event", "ended"]


def creation(control: Control, number: int) -> Any:
    key = f"cancelled-{number:04}"
    return control.stub.CreateJob(pb.CreateJobRequest(job_type="synthetic", input=b"{}", idempotency_key=key))


async def cancelled_when(moment: Awaitable[None], calls: Sequence[Any]) -> None:
    begun = [asyncio.ensure_future(read(call)) for call in calls]
    await moment
    for call in calls:
        call.cancel()
    await asyncio.gather(*begun)


async def cancelled_at_any_time(calls: Sequence[Any]) -> None:
    """Cancel each call at a time of its own, from before it is heard of to after it is answered."""
    spread = random.Random(7)

    async def cancel(call: Any) -> None:
        await asyncio.sleep(spread.uniform(0, 0.3))
        call.cancel()

    await asyncio.gather(*map(cancel, calls), *map(read, calls))


async def read(call: Any) -> None:
    """Wait until a call is answered or over, whatever its end; of a stream, all of it."""
    with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
        if hasattr(call, "read"):
            async for _ in call:
                pass
        else:
            await call


async def all_connections_work(control: Control) -> None:
    """Have every connection of the pool at work at the same time.

    The probe of the database, which has a connection of its own, does not look at attempts.
    """
    job = await control.create()
    async with locked(control, "attempts"):
        request = pb.ListAttemptsRequest(job_id=job.job_id)
        asked = [asyncio.ensure_future(control.stub.ListAttempts(request)) for _ in range(POOL_SIZE)]
        await until_blocked(control, POOL_SIZE)
    assert [list(each.attempts) for each in await asyncio.gather(*asked)] == [[]] * POOL_SIZE


def subscriptions() -> int:
    """How many of them are in memory: the service runs inside this process."""
    gc.collect()
    return sum(isinstance(each, Subscription) for each in gc.get_objects())
