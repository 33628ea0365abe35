"""Deletes from Redis what only an accident deletes."""

from __future__ import annotations

from redis.asyncio import Redis


async def wipe(redis: Redis, prefix: str) -> None:
    """Delete every key of one deployment."""
    async for key in redis.scan_iter(f"{prefix}*"):
        await redis.delete(key)
