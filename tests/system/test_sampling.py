"""A secret is found wherever the suite must find it, and the head of a stream is told from a backlog."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import asyncpg
from redis.asyncio import Redis

from verification.evidence.history import History
from verification.evidence.samples import Samples
from verification.stage import sampling
from verification.stage.stack import Stack, running

SECRET = f"secret-{uuid4().hex}"
TOKEN = "3.a_token-of-a-lease-that-was"
LEASE_STREAM = "baton:lease:{drill}:synthetic:1.1:2"
_EVENT = """
insert into outbox
    (event_type, aggregate_type, aggregate_id, dedupe_key, payload, create_time, available_time)
values ('job.failed', 'job', $1, 'job.failed:x', jsonb_build_object('note', $2::text), now(), now())
"""


async def looked(stack: Stack) -> Samples:
    samples = Samples()
    await sampling.look(stack, History(), "", SECRET, samples)
    return samples


async def plant_in_redis(stack: Stack) -> None:
    async with Redis.from_url(stack.redis_url) as redis:
        await redis.set("baton:a", SECRET)
        await redis.hset("baton:b", mapping={"field": SECRET})
        await redis.sadd(f"baton:{SECRET}", "member")
        await redis.xadd("baton:events", {"payload": SECRET})


async def fill(stack: Stack) -> None:
    async with Redis.from_url(stack.redis_url) as redis:
        await redis.xgroup_create(LEASE_STREAM, "executors", mkstream=True)
        for _ in range(3):
            await redis.xadd(LEASE_STREAM, {"payload": "x"})
        await redis.hset("baton:demand:{drill}:synthetic:1.1:2", mapping={"a": "5:1", "b": "2:1"})


async def plant_in_the_outbox(stack: Stack) -> None:
    connection = await asyncpg.connect(stack.database_url, ssl=False)
    try:
        await connection.execute(_EVENT, uuid4(), SECRET)
    finally:
        await connection.close()


def test_what_was_planted_is_found_in_redis_and_in_the_outbox(tmp_path: Path) -> None:
    async def run(stack: Stack) -> None:
        before = await looked(stack)
        assert [each.found for each in before.searches] == [(), []]

        await plant_in_redis(stack)
        await fill(stack)
        await plant_in_the_outbox(stack)
        after = await looked(stack)

        outbox, redis = after.searches
        assert (outbox.place, list(outbox.found)) == ("the outbox", ["job.failed"])
        assert {each.partition(": ")[0] for each in redis.found} == {
            "baton:a",
            "baton:b",
            f"baton:{SECRET}",
            "baton:events",
        }
        (sample,) = after.samples
        assert (sample.entries[LEASE_STREAM], sample.demand) == (3, 7)
        assert sample.memory_bytes > 0

    with running(tmp_path, executors=0) as stack:
        asyncio.run(run(stack))


def test_what_was_planted_is_found_in_logs(tmp_path: Path) -> None:
    for name, line in (
        ("clean", "3.4 s passed"),
        ("input", f"note={SECRET}"),
        ("token", f'"token": "{TOKEN}"'),
    ):
        (tmp_path / f"{name}.log").write_text(f"a line\n{line}\n")

    searches = sampling.search_logs(sorted(tmp_path.glob("*.log")), SECRET, {TOKEN})

    assert [(each.place, len(each.found)) for each in searches] == [
        ("clean.log", 0),
        ("input.log", 1),
        ("token.log", 1),
    ]
