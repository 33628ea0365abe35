"""The way to Redis: a client that never repeats a command by itself, and the translation of its errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    ClusterError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from shared.domain.errors import PlatformUnavailable

CONNECT_SECONDS = 1.0
"""A server that does not accept within this time is away."""

REPLY_SECONDS = 2.0
"""A server that does not reply within this time is away. The dispatcher holds row locks while it appends, so
this is far below its transaction's time limit."""

_AWAY = (ConnectionError, TimeoutError, OutOfMemoryError, ReadOnlyError, NoPermissionError, ClusterError)

_AWAY_CODES = ("OOM", "LOADING", "READONLY", "NOPERM", "BUSY", "MISCONF", "NOREPLICAS", "UNKILLABLE")
"""First words of replies for which the client has no class of its own, or that a script passed on."""

_AWAY_CLUSTER_CODES = ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN")


@asynccontextmanager
async def open_redis(redis_url: str) -> AsyncIterator[Redis]:
    """Open a client with a pool; it connects when first used.

    It does not retry: an append whose reply was lost would be there twice. Whoever calls knows what is
    safe to repeat.
    """
    redis = Redis.from_url(
        redis_url,
        protocol=2,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=REPLY_SECONDS,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        yield redis
    finally:
        await redis.aclose()


@contextmanager
def translated() -> Iterator[None]:
    """Turn the client's errors into the engine's words; use it around commands only.

    Raises:
        PlatformUnavailable: Redis did not answer, or says that it can't serve anybody now. What was asked for
            may or may not have happened.
    """
    try:
        yield
    except RedisError as error:
        if is_nobodys_fault(error):
            raise PlatformUnavailable("redis") from error
        raise
    except OSError as error:
        raise PlatformUnavailable("redis") from error


def is_nobodys_fault(error: RedisError) -> bool:
    """Whether an error says nothing about the command that met it."""
    if isinstance(error, _AWAY):
        return True
    return isinstance(error, ResponseError) and refuses_everyone(str(error))


def refuses_everyone(error: str) -> bool:
    """Whether the text of a reply says that Redis can't serve now, whatever it is asked for."""
    return error.partition(" ")[0] in _AWAY_CODES + _AWAY_CLUSTER_CODES
