"""Ten thousand jobs through the whole engine, and nothing is left of them where nothing should be."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.support import many_jobs
from verification.stage import stack

JOBS = 10_000


async def lease_streams(redis_url: str) -> dict[str, tuple[int, int]]:
    """Each lease stream's length and how many of its entries are pending."""
    async with Redis.from_url(redis_url) as redis:
        found = {}
        async for key in redis.scan_iter("baton:lease:*"):
            pending = sum(group["pending"] for group in await redis.xinfo_groups(key))
            found[key.decode()] = (await redis.xlen(key), pending)
        return found


@pytest.mark.timeout(300)
def test_ten_thousand_jobs_succeed_once_each_and_leave_nothing_behind(tmp_path: Path) -> None:
    with stack.running(tmp_path, executors=2) as running:

        async def run() -> None:
            ids = await many_jobs.create(running.control, JOBS, {}, name="ten-thousand")
            assert len(set(ids)) == JOBS
            query = many_jobs.AFTERWARDS["succeeded"]
            await many_jobs.until(running.database_url, query, JOBS, seconds=200)
            assert await many_jobs.afterwards(running.database_url) == {
                "succeeded": JOBS,
                "projections": JOBS,
                "successful attempts": JOBS,
                "dispatch rows": 0,
                "leases": 0,
                "jobs whose events have gaps": 0,
            }
            streams = await lease_streams(running.redis_url)
            assert streams
            assert set(streams.values()) == {(0, 0)}

        asyncio.run(run())
