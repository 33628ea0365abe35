"""The lease streams as Redis has them, and what a crash or a lost write may do to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis

_STREAM_KEYS = "baton:*"
_SCAN_COUNT = 1_000


async def append_again(redis_url: str) -> int:
    """Append every entry a second time, as a dispatcher does that died before its commit; return how many."""
    async with _connected(redis_url) as redis:
        count = 0
        for key in await _streams(redis):
            for _, fields in await redis.xrange(key):
                await redis.xadd(key, fields)
                count += 1
        return count


async def forget_entries(redis_url: str) -> int:
    """Drop all entries and keep the streams, as a restart without the last writes does; return how many."""
    async with _connected(redis_url) as redis:
        return sum([await redis.xtrim(key, maxlen=0, approximate=False) for key in await _streams(redis)])


async def waiting(redis_url: str) -> int:
    """How many entries all streams hold."""
    async with _connected(redis_url) as redis:
        return sum([await redis.xlen(key) for key in await _streams(redis)])


async def _streams(redis: Any) -> list[bytes]:
    """The keys of all lease streams; the events' copy has no group of readers."""
    found = []
    async for key in redis.scan_iter(_STREAM_KEYS, count=_SCAN_COUNT, _type="stream"):
        if await redis.xinfo_groups(key):
            found.append(key)
    return found


@asynccontextmanager
async def _connected(redis_url: str) -> AsyncIterator[Any]:
    redis = Redis.from_url(redis_url)
    try:
        yield redis
    finally:
        await redis.aclose()
