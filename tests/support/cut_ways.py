"""JobControl whose ways to Postgres and Redis can be cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.control_service import Control, control_running
from verification.peers.cuttable import Cuttable, cuttable

POOL_SIZE = 3


@asynccontextmanager
async def behind_ways(
    database_url: str, redis_url: str, redis_prefix: str, **settings: Any
) -> AsyncIterator[tuple[Control, Cuttable, Cuttable]]:
    """The service, whose ways to Postgres and Redis can be cut; the test's own stay."""
    async with (
        cuttable(database_url) as database,
        cuttable(redis_url) as redis,
        control_running(
            database.url,
            redis.url,
            redis_prefix,
            executors_database_url=database_url,
            database_pool_size=POOL_SIZE,
            **settings,
        ) as control,
    ):
        yield control, database, redis
