"""The commands on lease streams, against every server that is on this machine."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import JobId, JobType, QueueName
from shared.runtime.ids import new_id, new_secret
from shared.streams.connection import open_redis
from shared.streams.lease_streams import Depth, Entry, LeaseStreams
from shared.streams.wake_ups import WakeUps
from tests.support.waiting import IMPORTS, NORMAL, URGENT, waiting

AT_ONCE = timedelta(0)
# Where a deployment keeps the stream `NORMAL`, and the demand for it.
LEASE_KEY = "lease:{drill}:synthetic:1.1:2"
DEMAND_KEY = "demand:{drill}:synthetic:1.1:2"


def ids(entries: list[Entry]) -> list[JobId]:
    return [each.job_id for each in entries]


async def test_what_was_appended_is_taken_once_and_in_order(streams: LeaseStreams) -> None:
    attempts = [waiting(priority=3, attempt=2), waiting(), waiting()]
    await streams.append(attempts)

    first = await streams.take([(NORMAL, 2)], "a")
    second = await streams.take([(NORMAL, 2)], "b")

    assert ids(first + second) == [each.job_id for each in attempts]
    assert first[0] == Entry(
        NORMAL, first[0].entry_id, attempts[0].job_id, JobType("synthetic"), QueueName("drill"), 3, 2
    )
    assert await streams.take([(NORMAL, 2)], "b") == []


async def test_streams_are_read_in_the_order_wanted_over_several_queues(streams: LeaseStreams) -> None:
    normal, urgent, imported = waiting(NORMAL), waiting(URGENT), waiting(IMPORTS)
    await streams.append([normal, urgent, imported])

    entries = await streams.take([(URGENT, 1), (IMPORTS, 1), (NORMAL, 1)], "a")

    assert ids(entries) == [urgent.job_id, imported.job_id, normal.job_id]


async def test_each_stream_gives_no_more_than_was_wanted_of_it(streams: LeaseStreams) -> None:
    await streams.append([waiting(stream) for stream in (URGENT, NORMAL) for _ in range(5)])

    entries = await streams.take([(URGENT, 1), (NORMAL, 3)], "a")

    assert [each.stream for each in entries] == [URGENT, NORMAL, NORMAL, NORMAL]


async def test_streams_that_were_missing_are_named_by_the_append_that_made_them(
    streams: LeaseStreams,
) -> None:
    assert (await streams.append([waiting(NORMAL), waiting(IMPORTS)])).made_anew == {NORMAL, IMPORTS}
    assert (await streams.append([waiting(NORMAL), waiting(URGENT)])).made_anew == {URGENT}


async def test_a_missing_stream_has_no_entries_and_stays_missing(streams: LeaseStreams) -> None:
    assert await streams.take([(NORMAL, 1)], "a") == []
    assert await streams.take_over([NORMAL], "a", idle=AT_ONCE, limit=1) == []
    assert await streams.depths([NORMAL]) == {NORMAL: Depth(None, None)}


async def test_a_missing_group_is_made_by_whoever_reads(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    attempt = waiting()
    await streams.append([attempt])
    await redis.xgroup_destroy(prefix + LEASE_KEY, "workers")

    assert await streams.take_over([NORMAL], "a", idle=AT_ONCE, limit=1) == []
    assert ids(await streams.take([(NORMAL, 1)], "a")) == [attempt.job_id]


async def test_a_missing_group_is_made_by_an_append_and_sees_what_was_there(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    attempts = [waiting(), waiting()]
    await streams.append(attempts[:1])
    await redis.xgroup_destroy(prefix + LEASE_KEY, "workers")

    assert (await streams.append(attempts[1:])).made_anew == frozenset()
    assert ids(await streams.take([(NORMAL, 9)], "a")) == [each.job_id for each in attempts]


async def test_settled_entries_leave_the_stream_and_the_pending_list(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    await streams.append([waiting(NORMAL), waiting(NORMAL), waiting(IMPORTS)])
    entries = await streams.take([(NORMAL, 9), (IMPORTS, 9)], "a")

    await streams.settle(entries)
    await streams.settle(entries)

    assert await streams.depths([NORMAL, IMPORTS]) == {NORMAL: Depth(0, None), IMPORTS: Depth(0, None)}
    assert await streams.take_over([NORMAL, IMPORTS], "b", idle=AT_ONCE, limit=9) == []
    pending = await redis.xpending(prefix + LEASE_KEY, "workers")
    assert pending["pending"] == 0


async def test_an_emptied_stream_is_not_a_missing_one(streams: LeaseStreams) -> None:
    await streams.append([waiting()])
    await streams.settle(await streams.take([(NORMAL, 1)], "a"))

    assert (await streams.append([waiting()])).made_anew == frozenset()


async def test_pending_entries_of_a_silent_consumer_are_taken_over_up_to_the_limit(
    streams: LeaseStreams,
) -> None:
    attempts = [waiting() for _ in range(3)]
    await streams.append(attempts)
    await streams.take([(NORMAL, 9)], "dead")

    assert await streams.take_over([NORMAL], "b", idle=timedelta(hours=1), limit=9) == []
    taken = await streams.take_over([URGENT, NORMAL], "b", idle=AT_ONCE, limit=2)

    assert ids(taken) == [each.job_id for each in attempts[:2]]


async def test_demand_adds_up_over_workers_and_is_forgotten_by_itself(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    await streams.append([waiting()])
    await streams.tell_demand("worker-1", {NORMAL: 64, IMPORTS: 0})
    await streams.tell_demand("worker-2", {NORMAL: 7})

    depths = await streams.depths([NORMAL, IMPORTS, URGENT])

    assert depths == {NORMAL: Depth(1, 71), IMPORTS: Depth(None, 0), URGENT: Depth(None, None)}
    key = prefix + DEMAND_KEY
    assert 0 < await redis.pttl(key) <= 5_000


async def test_what_a_dead_worker_told_no_longer_counts(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    await streams.tell_demand("alive", {NORMAL: 3})
    key = prefix + DEMAND_KEY
    await redis.hset(key, "dead", "50:1000")

    assert (await streams.depths([NORMAL]))[NORMAL].demand == 3
    await streams.tell_demand("alive", {NORMAL: 2})
    assert await redis.hkeys(key) == [b"alive"]


async def test_scripts_that_a_server_has_forgotten_are_sent_again(
    streams: LeaseStreams, redis: Redis
) -> None:
    await streams.append([waiting()])
    await redis.script_flush()

    await streams.append([waiting()])

    assert len(await streams.take([(NORMAL, 9)], "a")) == 2


async def test_an_entry_that_nobody_can_read_is_removed(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    await streams.append([waiting()])
    await redis.xadd(prefix + LEASE_KEY, {"e": b"\xff\xff"})

    assert len(await streams.take([(NORMAL, 9)], "a")) == 1
    assert await streams.depths([NORMAL]) == {NORMAL: Depth(1, None)}


async def test_nothing_is_asked_of_redis_for_nothing(streams: LeaseStreams) -> None:
    assert (await streams.append([])).made_anew == frozenset()
    assert await streams.take([], "a") == []
    assert await streams.take_over([], "a", idle=AT_ONCE, limit=1) == []
    assert await streams.depths([]) == {}
    await streams.settle([])
    await streams.tell_demand("a", {})


async def test_a_server_out_of_memory_is_the_platform_being_away(streams: LeaseStreams, redis: Redis) -> None:
    await redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(PlatformUnavailable) as raised:
            await streams.append([waiting()])
    finally:
        await redis.config_set("maxmemory", 0)
    assert raised.value.what == "redis"


async def test_a_caller_without_permission_finds_the_platform_away(
    url: str, redis: Redis, prefix: str
) -> None:
    user = f"u{new_secret()}"
    await redis.acl_setuser(
        user, enabled=True, passwords=["+secret"], keys=["nothing:*"], channels=["*"], categories=["+@all"]
    )
    try:
        async with open_redis(
            f"redis://{user}:secret@{url.rpartition('@')[2].removeprefix('redis://')}"
        ) as other:
            with pytest.raises(PlatformUnavailable):
                await LeaseStreams(other, prefix=prefix).append([waiting()])
    finally:
        await redis.acl_deluser(user)


async def test_a_server_out_of_reach_is_the_platform_being_away(prefix: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with open_redis(f"redis://127.0.0.1:{closed.getsockname()[1]}/0") as redis:
            with pytest.raises(PlatformUnavailable):
                await LeaseStreams(redis, prefix=prefix).depths([NORMAL])
            await WakeUps(redis, prefix=prefix).jobs_changed([JobId(new_id())])
