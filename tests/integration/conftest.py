"""What tests on real servers stand on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from job_api.loops.lease_reaper import LeaseReaper
from job_api.loops.outbox_dispatcher import OutboxDispatcher
from shared.catalog import catalog
from shared.storage.transactions import Transactions
from shared.streams.connection import open_redis
from shared.streams.lease_streams import LeaseStreams
from shared.streams.wake_ups import WakeUps
from tests.support.database_time import DatabaseTime
from tests.support.storage import opened


@pytest.fixture
async def transactions(database_url: str) -> AsyncIterator[Transactions]:
    async with opened(database_url) as transactions:
        yield transactions


@pytest.fixture
async def database_time(transactions: Transactions) -> DatabaseTime:
    database_time = DatabaseTime(transactions)
    await database_time.make_movable()
    return database_time


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with open_redis(redis_url) as redis:
        yield redis


@pytest.fixture
def streams(redis: Redis, redis_prefix: str) -> LeaseStreams:
    return LeaseStreams(redis, prefix=redis_prefix)


@pytest.fixture
def wake_ups(redis: Redis, redis_prefix: str) -> WakeUps:
    return WakeUps(redis, prefix=redis_prefix)


@pytest.fixture
def dispatcher(transactions: Transactions, streams: LeaseStreams) -> OutboxDispatcher:
    return OutboxDispatcher(transactions, streams)


@pytest.fixture
def woken() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def reaper(
    transactions: Transactions, wake_ups: WakeUps, woken: asyncio.Event, database_time: DatabaseTime
) -> LeaseReaper:
    return LeaseReaper(transactions, wake_ups, catalog.load(), wake_dispatcher=woken, uniform=lambda: 0.0)
