"""Running services for tests of what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.control_service import SECRET, Control, control_running

QUICK = {"poll_seconds": 0.1}
"""What no hint tells of, such as progress, is seen this soon."""


@pytest.fixture
async def control(database_url: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Control]:
    """JobControl that lets everyone in as `local`, with all scopes."""
    async for each in _hosted(database_url, redis_url, redis_prefix):
        yield each


@pytest.fixture
async def guarded_control(database_url: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Control]:
    """JobControl that asks for tokens."""
    async for each in _hosted(database_url, redis_url, redis_prefix, token_secret=SECRET):
        yield each


async def _hosted(
    database_url: str, redis_url: str, redis_prefix: str, **settings: str
) -> AsyncIterator[Control]:
    """Run the service in one task from start to stop: task groups are left by the task that entered them."""
    running: list[Control] = []
    started = asyncio.Event()
    stop = asyncio.Event()

    async def host() -> None:
        async with control_running(database_url, redis_url, redis_prefix, watch=QUICK, **settings) as control:
            running.append(control)
            started.set()
            await stop.wait()

    hosting = asyncio.create_task(host())
    hosting.add_done_callback(lambda _: started.set())
    await started.wait()
    if hosting.done():
        await hosting
    yield running[0]
    stop.set()
    await hosting
