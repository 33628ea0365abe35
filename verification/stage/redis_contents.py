"""What is in Redis, how it loses it, and what else a crash may do to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

_STREAM_KEYS = "baton:*"
_EVENTS = "baton:events"

REDIS_AWAY = (RedisError, OSError)
"""What a question to Redis raises while it is away."""
_SCAN_COUNT = 1_000


@dataclass(frozen=True, slots=True)
class RedisContents:
    """Of the server at an address; each question has its own connection, as the server comes and goes.

    Attributes:
        timeout_seconds: How long an answer may take; None for as long as it does.
    """

    redis_url: str
    timeout_seconds: float | None = None

    async def wipe(self) -> None:
        """Remove every key, of streams, groups and all else."""
        async with self._connected() as redis:
            await redis.flushall()

    async def entries(self) -> int:
        """How many entries all lease streams hold."""
        async with self._connected() as redis:
            return sum([await redis.xlen(key) for key, _ in await _groups(redis)])

    async def pending(self) -> int:
        """How many entries were taken by somebody and not settled yet."""
        async with self._connected() as redis:
            return sum([group["pending"] for _, group in await _groups(redis)])

    async def append_again(self) -> None:
        """Append every entry a second time, as a dispatcher does that died before its commit."""
        async with self._connected() as redis:
            for key, _ in await _groups(redis):
                for _, fields in await redis.xrange(key):
                    await redis.xadd(key, fields)

    async def forget_entries(self) -> int:
        """Drop all entries and keep the streams, as a restart without the last writes does; tell how many."""
        async with self._connected() as redis:
            groups = await _groups(redis)
            return sum([await redis.xtrim(key, maxlen=0, approximate=False) for key, _ in groups])

    async def told(self) -> list[str]:
        """The dedupe keys in the copy of events that other services read, first to last."""
        async with self._connected() as redis:
            return [fields[b"dedupe_key"].decode() for _, fields in await redis.xrange(_EVENTS)]

    async def used_bytes(self) -> int:
        """Its memory, without what the allocator keeps for later."""
        async with self._connected() as redis:
            return int((await redis.info("memory"))["used_memory"])

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        redis = Redis.from_url(self.redis_url, socket_timeout=self.timeout_seconds)
        try:
            yield redis
        finally:
            await redis.aclose()


async def _groups(redis: Any) -> list[tuple[bytes, Any]]:
    """Every lease stream with its group of readers; the events' copy has none."""
    found = []
    async for key in redis.scan_iter(_STREAM_KEYS, count=_SCAN_COUNT, _type="stream"):
        found += [(key, group) for group in await redis.xinfo_groups(key)]
    return found
