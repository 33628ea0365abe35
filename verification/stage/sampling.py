"""Looks at Redis and at the outbox from time to time while a part runs, and searches for what was planted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from verification.evidence import batches
from verification.evidence.history import History
from verification.evidence.samples import Sample, Samples, Search
from verification.stage.database import AWAY, connected
from verification.stage.redis_contents import REDIS_AWAY
from verification.stage.stack import Stack

INTERVAL_SECONDS = 2.0
_LOOK_SECONDS_MAX = 10.0
_KEYS = "baton:*"
_DEMAND = "baton:demand:"
_ENTRIES_MAX = 200
"""Of each stream, the newest: with every look there are others."""
_SHOWN_CHARACTERS = 200
_TOKEN = re.compile(r"\b\d+\.[A-Za-z0-9_-]{16,}")
"""What may be a lease's token."""

_OUTBOX = """
select count(*) filter (where event_type = 'job.dispatch') as waiting,
    array_agg(event_type) filter (
        where position($1 in payload::text || dedupe_key || last_error_message) > 0) as found
from outbox
"""


@asynccontextmanager
async def sampled(stack: Stack, history: History, run: str, secret: str) -> AsyncIterator[Samples]:
    """Look again and again until the block ends."""
    samples, over = Samples(), asyncio.Event()
    looking = asyncio.create_task(
        _look_again(stack, history, run, secret, samples, over=over), name="looking at Redis"
    )
    try:
        yield samples
    finally:
        over.set()  # a cancel in the middle of a look may be taken for a time-out, and be lost
        await looking


async def look(stack: Stack, history: History, run: str, secret: str, samples: Samples) -> None:
    """Look once; what is away is passed over."""
    await look_at_batches(stack, history, run, samples)
    redis = Redis.from_url(stack.redis_url)
    with suppress(*AWAY, *REDIS_AWAY):
        async with asyncio.timeout(_LOOK_SECONDS_MAX):
            waiting = await _outbox(stack, secret, samples)
            await _redis(redis, waiting, history, secret, samples)
    await redis.aclose()


async def look_at_batches(stack: Stack, history: History, run: str, samples: Samples) -> None:
    """Look once at the counters of all batches of a run; nothing is seen while the database is away."""
    with suppress(*AWAY):
        async with asyncio.timeout(_LOOK_SECONDS_MAX), connected(stack.database_url) as connection:
            samples.batches += await batches.moments(connection, run, history.now())


def search_logs(paths: Iterable[Path], secret: str, tokens: Collection[str]) -> Iterator[Search]:
    """Search logs for the secret and for tokens of leases."""
    for path in paths:
        with path.open(errors="replace") as lines:
            found = [line[:_SHOWN_CHARACTERS] for line in lines if _holds(line, secret, tokens)]
        yield Search(path.name, found)


def _holds(line: str, secret: str, tokens: Collection[str]) -> bool:
    return secret in line or any(each in tokens for each in _TOKEN.findall(line))


async def _look_again(
    stack: Stack, history: History, run: str, secret: str, samples: Samples, *, over: asyncio.Event
) -> None:
    while not over.is_set():
        await look(stack, history, run, secret, samples)
        with suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL_SECONDS):
                await over.wait()


async def _redis(redis: Any, waiting: int, history: History, secret: str, samples: Samples) -> None:
    entries: dict[str, int] = {}
    demand, found = 0, []
    async for key in redis.scan_iter(_KEYS, count=1_000):
        kind = (await redis.type(key)).decode()
        value = await _value(redis, key, kind)
        if value is None:  # it has expired meanwhile
            continue
        if secret in f"{key} {value}":
            found.append(f"{key.decode()}: {value}"[:_SHOWN_CHARACTERS])
        if kind == "stream" and await redis.xinfo_groups(key):
            entries[key.decode()] = await redis.xlen(key)
        if key.decode().startswith(_DEMAND):
            demand += sum(int(told.split(b":")[0]) for told in value.values())
    samples.searches.append(Search("Redis", found))
    memory = (await redis.info("memory"))["used_memory"]
    samples.samples.append(Sample(history.now(), waiting, memory, entries, demand))


async def _outbox(stack: Stack, secret: str, samples: Samples) -> int:
    """Search the outbox, and return how many attempts wait there."""
    async with connected(stack.database_url) as connection:
        row = await connection.fetchrow(_OUTBOX, secret)
    samples.searches.append(Search("the outbox", row["found"] or ()))
    return int(row["waiting"])


async def _value(redis: Any, key: bytes, kind: str) -> Any:
    """What a key holds, of long streams and lists a part."""
    match kind:
        case "stream":
            return await redis.xrevrange(key, count=_ENTRIES_MAX)
        case "hash":
            return await redis.hgetall(key)
        case "set":
            return await redis.smembers(key)
        case "zset":
            return await redis.zrange(key, 0, _ENTRIES_MAX)
        case "list":
            return await redis.lrange(key, 0, _ENTRIES_MAX)
        case _:
            return await redis.get(key)
