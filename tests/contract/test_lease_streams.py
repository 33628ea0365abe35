"""The commands on Redis, against every server that is on this machine: Valkey from its wheel, and Redis."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import JobId, JobType, QueueName, StreamName
from shared.domain.queues import StreamKey
from shared.runtime.ids import new_id, new_secret
from shared.streams.channels import Channel
from shared.streams.connection import open_redis
from shared.streams.event_copy import EventCopy
from shared.streams.lease_streams import Depth, Entry, LeaseStreams
from shared.streams.wake_ups import CancelsRequested, JobsChanged, StreamsFilled, WakeUps

URGENT = StreamKey(QueueName("drill"), JobType("synthetic"), 1, 1, 0).name
NORMAL = StreamKey(QueueName("drill"), JobType("synthetic"), 1, 1, 2).name
IMPORTS = StreamKey(QueueName("import"), JobType("document_import"), 1, 1, 1).name
AT_ONCE = timedelta(0)


@dataclass(frozen=True)
class Waiting:
    """An attempt that waits, as the outbox has it."""

    stream: StreamName
    job_id: JobId
    job_type: JobType
    queue: QueueName
    priority: int = 50
    attempt: int = 1


@dataclass(frozen=True)
class Event:
    event_type: str
    dedupe_key: str
    payload: dict[str, Any]
    create_time: datetime


def waiting(stream: StreamName = NORMAL, **changes: Any) -> Waiting:
    queue, job_type, *_ = stream.split(":")
    return Waiting(stream, JobId(new_id()), JobType(job_type), QueueName(queue), **changes)


def ids(entries: list[Entry]) -> list[JobId]:
    return [each.job_id for each in entries]


@contextmanager
def redis_running(directory: Path) -> Iterator[str]:
    """Run the machine's own Redis."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        "redis-server",
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(directory),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "Ready to accept connections" in line:
                    break
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()


SERVERS = ["valkey", *(["redis"] if shutil.which("redis-server") else [])]


@pytest.fixture(scope="module", params=SERVERS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "valkey":
        yield request.getfixturevalue("valkey_server").url
    else:
        with redis_running(tmp_path_factory.mktemp("redis")) as address:
            yield address


@pytest.fixture
async def redis(url: str) -> AsyncIterator[Redis]:
    async with open_redis(url) as client:
        yield client


@pytest.fixture
def prefix() -> str:
    return f"baton:t{new_secret()}:"


@pytest.fixture
def streams(redis: Redis, prefix: str) -> LeaseStreams:
    return LeaseStreams(redis, prefix=prefix)


@pytest.fixture
def wake_ups(redis: Redis, prefix: str) -> WakeUps:
    return WakeUps(redis, prefix=prefix)


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
    assert await streams.append([waiting(NORMAL), waiting(IMPORTS)]) == {NORMAL, IMPORTS}
    assert await streams.append([waiting(NORMAL), waiting(URGENT)]) == {URGENT}


async def test_a_missing_stream_has_no_entries_and_stays_missing(streams: LeaseStreams) -> None:
    assert await streams.take([(NORMAL, 1)], "a") == []
    assert await streams.take_over([NORMAL], "a", idle=AT_ONCE, limit=1) == []
    assert await streams.depths([NORMAL]) == {NORMAL: Depth(None, None)}


async def test_a_missing_group_is_made_by_whoever_reads(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    attempt = waiting()
    await streams.append([attempt])
    await redis.xgroup_destroy(f"{prefix}lease:{{drill}}:synthetic:1.1:2", "workers")

    assert await streams.take_over([NORMAL], "a", idle=AT_ONCE, limit=1) == []
    assert ids(await streams.take([(NORMAL, 1)], "a")) == [attempt.job_id]


async def test_a_missing_group_is_made_by_an_append_and_sees_what_was_there(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    attempts = [waiting(), waiting()]
    await streams.append(attempts[:1])
    await redis.xgroup_destroy(f"{prefix}lease:{{drill}}:synthetic:1.1:2", "workers")

    assert await streams.append(attempts[1:]) == frozenset()
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
    pending = await redis.xpending(f"{prefix}lease:{{drill}}:synthetic:1.1:2", "workers")
    assert pending["pending"] == 0


async def test_an_emptied_stream_is_not_a_missing_one(streams: LeaseStreams) -> None:
    await streams.append([waiting()])
    await streams.settle(await streams.take([(NORMAL, 1)], "a"))

    assert await streams.append([waiting()]) == frozenset()


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
    key = f"{prefix}demand:{{drill}}:synthetic:1.1:2"
    assert 0 < await redis.pttl(key) <= 5_000


async def test_what_a_dead_worker_told_no_longer_counts(
    streams: LeaseStreams, redis: Redis, prefix: str
) -> None:
    await streams.tell_demand("alive", {NORMAL: 3})
    key = f"{prefix}demand:{{drill}}:synthetic:1.1:2"
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
    await redis.xadd(f"{prefix}lease:{{drill}}:synthetic:1.1:2", {"e": b"\xff\xff"})

    assert len(await streams.take([(NORMAL, 9)], "a")) == 1
    assert await streams.depths([NORMAL]) == {NORMAL: Depth(1, None)}


async def test_nothing_is_asked_of_redis_for_nothing(streams: LeaseStreams) -> None:
    assert await streams.append([]) == frozenset()
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


async def test_an_append_wakes_whoever_listens_for_filled_streams(
    streams: LeaseStreams, wake_ups: WakeUps
) -> None:
    async with wake_ups.listen(Channel.STREAMS_FILLED) as hints:
        await streams.append([waiting(NORMAL), waiting(URGENT)])

        assert await anext(hints) == StreamsFilled(frozenset({NORMAL, URGENT}))


async def test_hints_arrive_on_the_channels_that_were_asked_for(wake_ups: WakeUps) -> None:
    changed, cancelled = JobId(new_id()), JobId(new_id())
    async with wake_ups.listen(Channel.JOBS_CHANGED, Channel.CANCELS_REQUESTED) as hints:
        await wake_ups.jobs_changed([changed])
        await wake_ups.cancels_requested([cancelled])

        assert await anext(hints) == JobsChanged(frozenset({changed}))
        assert await anext(hints) == CancelsRequested(frozenset({cancelled}))


async def test_a_listener_subscribes_again_when_its_connection_breaks(
    wake_ups: WakeUps, redis: Redis
) -> None:
    job_id = JobId(new_id())
    async with wake_ups.listen(Channel.JOBS_CHANGED) as hints:
        heard = asyncio.ensure_future(anext(hints))
        await redis.client_kill_filter(_type="pubsub")
        while not heard.done():
            await wake_ups.jobs_changed([job_id])
            await asyncio.wait([heard], timeout=0.05)

        assert heard.result() == JobsChanged(frozenset({job_id}))


async def test_events_are_copied_for_other_services_in_order(redis: Redis, prefix: str) -> None:
    time = datetime(2030, 1, 1, tzinfo=UTC)
    events = [
        Event("job.succeeded", f"job.succeeded:{n}", {"state": "SUCCEEDED", "attempt": n}, time)
        for n in (1, 2)
    ]

    await EventCopy(redis, prefix=prefix).append(events)

    copied: list[Any] = [fields for _, fields in await redis.xrange(f"{prefix}events") or []]
    assert [each[b"dedupe_key"] for each in copied] == [b"job.succeeded:1", b"job.succeeded:2"]
    assert copied[0][b"payload"] == b'{"state":"SUCCEEDED","attempt":1}'
    assert copied[0][b"create_time"] == b"2030-01-01T00:00:00+00:00"
