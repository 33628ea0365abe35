"""Pauses hold over several workers' processes and callers, and nothing that waits is lost meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.streams.connection import open_redis
from tests.support.control_service import Control, control_running
from tests.support.redis_keys import wipe
from tests.support.selected_jobs import rows
from tests.support.service_process import a_worker_process
from tests.system.test_limits_under_kills import LOOPS, serve

ROUNDS = 6
JOBS = 60
SUCCEEDED = "jobs where state = 'SUCCEEDED'"
PAUSABLE = ({"queue": "drill"}, {"job_type": "synthetic"})


@asynccontextmanager
async def executors(*places: str) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(a_worker_process(*places)) for _ in range(2)]
        serving = [asyncio.create_task(serve(each.address)) for each in workers * 2]
        try:
            yield
        finally:
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)


async def number(control: Control, statement: str) -> int:
    return int((await rows(control, f"select count(*) as n from {statement}"))[0].n)


async def pause_from_both(one: Control, other: Control, pausable: dict[str, Any]) -> datetime:
    """Pause by two callers at once, and return when the second answer had come, by the database's clock."""
    request = pb.PauseRequest(**pausable)
    await asyncio.gather(one.stub.Pause(request), other.stub.Pause(request))
    now: datetime = (await rows(one, "select engine_time() as now"))[0].now
    return now


async def test_nothing_starts_during_a_pause_and_everything_after_it_though_redis_was_wiped(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    places = (database_url, redis_url, redis_prefix)
    async with (
        control_running(*places, loops=LOOPS) as one,
        control_running(*places, loops=LOOPS) as other,
        executors(*places),
        open_redis(redis_url) as redis,
    ):
        for turn in range(ROUNDS):
            for _ in range(JOBS):
                await one.create()
            pausable = PAUSABLE[turn % 2]
            paused = await pause_from_both(one, other, pausable)
            await wipe(redis, redis_prefix)
            await asyncio.sleep(0.5)  # for what must not start in this time
            started = f"job_events where kind = 'started' and event_time > '{paused.isoformat()}'"
            assert await number(one, started) == 0
            await other.stub.Resume(pb.ResumeRequest(**pausable))
        async with asyncio.timeout(60):
            while await number(one, SUCCEEDED) < ROUNDS * JOBS:  # noqa: ASYNC110 - many jobs' ends
                await asyncio.sleep(0.1)

        assert await number(one, "audit_records where action like '%.pause'") == ROUNDS
        assert await number(one, "audit_records where action like '%.resume'") == ROUNDS
