"""A thousand watches of one replica while jobs finish: each gets everything once, and reads are shared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc
from shared.streams.connection import open_redis
from shared.streams.wake_ups import WakeUps
from tests.support import storage
from tests.support.counting_postgres import CountingDatabase, counting_database, counting_postgres
from tests.support.finishing import finish_steadily, jobs_of
from tests.support.servers import PostgresServer
from tests.support.service_process import ServiceProcess, an_api_process
from tests.support.watches import told_once

JOBS = 1_000
JOBS_PER_SECOND = 200
CHANNELS = 8
JOINING_MAX = 500
"""At the same moment: a gRPC server turns calls away while more than a thousand wait to be looked at."""
STORY = ["created 0", "started 1", "succeeded 1", "ended FINISHED"]
STATEMENTS_PER_SECOND_MAX = 50 * 7
"""Of the reads for watches, however many there are: fifty steps a second, each of a few statements."""


@pytest.fixture(scope="module")
def counting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with counting_postgres(tmp_path_factory.mktemp("counting")) as server:
        yield server


@dataclass(frozen=True, slots=True)
class Run:
    """What a run took while the jobs finished."""

    stories: Sequence[Sequence[str]]
    statements: int
    seconds: float
    memory_bytes: int
    processor_seconds: float

    @property
    def statements_per_second(self) -> float:
        return self.statements / self.seconds


async def run(server: PostgresServer, redis_url: str, redis_prefix: str, *, watchers: int) -> Run:
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(counting_database(server))
        api = await stack.enter_async_context(
            an_api_process(database_url=database.counted_url, redis_url=redis_url, redis_prefix=redis_prefix)
        )
        transactions = await stack.enter_async_context(storage.opened(database.url))
        redis = await stack.enter_async_context(open_redis(redis_url))
        stubs = [
            job_control_pb2_grpc.JobControlStub(
                await stack.enter_async_context(
                    grpc.aio.insecure_channel(api.address, options=[("grpc.use_local_subchannel_pool", 1)])
                )
            )
            for _ in range(CHANNELS)
        ]
        job_ids = await jobs_of(transactions, JOBS)
        memory = api.memory_bytes()
        watched = [str(job_ids[number % JOBS]) for number in range(watchers)]
        watches = [Watcher(stubs[number % CHANNELS], each) for number, each in enumerate(watched)]
        async with asyncio.timeout(60):
            for start in range(0, watchers, JOINING_MAX):
                await asyncio.gather(*(each.begun() for each in watches[start : start + JOINING_MAX]))
        return await measured(
            api,
            database,
            watches,
            finish_steadily(
                transactions,
                WakeUps(redis, prefix=redis_prefix),
                job_ids,
                jobs_per_second=JOBS_PER_SECOND,
            ),
            memory=memory,
        )


async def measured(
    api: ServiceProcess, database: CountingDatabase, watches: Sequence[Watcher], work: Any, *, memory: int
) -> Run:
    loop = asyncio.get_running_loop()
    statements, processor, begin = await database.statements(), api.processor_seconds(), loop.time()
    memory = api.memory_bytes() - memory
    async with asyncio.timeout(60):
        stories, _ = await asyncio.gather(asyncio.gather(*(each.rest() for each in watches)), work)
    return Run(
        stories,
        await database.statements() - statements,
        loop.time() - begin,
        memory,
        api.processor_seconds() - processor,
    )


class Watcher:
    """One WatchJob stream, and what it was told."""

    def __init__(self, stub: Any, job_id: str) -> None:
        self._watch, self._request = stub.WatchJob, pb.WatchJobRequest(job_id=job_id)
        self._stream: Any = None
        self._story = list[str]()
        self._numbers = list[int]()

    async def begun(self) -> None:
        self._stream = self._watch(self._request)
        self._take(await self._stream.read())

    async def rest(self) -> Sequence[str]:
        while not self._story[-1].startswith("ended"):
            self._take(await self._stream.read())
        assert await self._stream.read() is grpc.aio.EOF
        assert self._numbers == list(range(1, len(self._numbers) + 1))
        return self._story

    def _take(self, message: pb.WatchJobResponse) -> None:
        if message.HasField("event"):
            self._numbers.append(message.event.number)
        if not message.HasField("keep_alive"):
            self._story.append(told_once(message))


def shown(found: Run) -> None:
    watchers = len(found.stories)
    print(
        f"{watchers} watchers: {found.statements_per_second:.0f} statements/s, {found.seconds:.1f} s,"
        f" {found.memory_bytes / 1024 / watchers:.0f} KiB a watcher,"
        f" {found.processor_seconds:.1f} s of the processor"
    )


@pytest.mark.timeout(240)
async def test_a_thousand_watchers_get_every_event_once_in_order_and_share_reads(
    counting_server: PostgresServer, redis_url: str, redis_prefix: str
) -> None:
    few = await run(counting_server, redis_url, redis_prefix, watchers=10)
    many = await run(counting_server, redis_url, f"{redis_prefix}many:", watchers=1_000)
    shown(few)
    shown(many)
    assert list(few.stories) == [STORY] * 10
    assert list(many.stories) == [STORY] * 1_000
    assert many.statements_per_second < few.statements_per_second + STATEMENTS_PER_SECOND_MAX


@pytest.mark.prove
@pytest.mark.timeout(240)
async def test_three_thousand_watchers_of_the_same_jobs_cost_no_more_statements(
    counting_server: PostgresServer, redis_url: str, redis_prefix: str
) -> None:
    one_each = await run(counting_server, redis_url, redis_prefix, watchers=1_000)
    three_each = await run(counting_server, redis_url, f"{redis_prefix}many:", watchers=3_000)
    shown(one_each)
    shown(three_each)
    assert list(three_each.stories) == [STORY] * 3_000
    assert three_each.statements_per_second < 1.1 * one_each.statements_per_second
