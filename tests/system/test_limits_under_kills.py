"""Limits of a job type hold while the workers that claim are killed, and all its jobs come to their ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import grpc

from shared.domain.identity import Owner
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support.control_service import Control, control_running
from tests.support.limited import most_at_once, spans
from tests.support.service_process import a_worker_process
from verification.peers.executor import ScriptedExecutor, success

JOB_TYPES = {"synthetic": {"at_once": 5, "at_once_per_owner": 2, "max_retries": 20}}
QUEUES = {"drill": {"lease_seconds": 1.0, "backoff_seconds": 0.1}}
LOOPS = {"reaper_seconds": 0.3, "sweep_seconds": 1.0, "unclaimed_seconds": 2.0}
OWNERS = ("ada", "bob", "cyd")
JOBS = 90
KILLS_OF_EACH = 3
WORK_SECONDS = 0.1


async def serve(address: str) -> None:
    """Take leases for ever; what is under way when the worker dies is lost with it."""
    while True:
        with suppress(grpc.aio.AioRpcError, AssertionError, TimeoutError, asyncio.InvalidStateError):
            async with ScriptedExecutor.connected(address) as executor:
                await executor.hello(credits=6)
                await succeed_all(executor)
        await asyncio.sleep(0.05)


async def succeed_all(executor: ScriptedExecutor) -> None:
    done = 0
    while executor.status is None:
        leases = executor.leases[done:]
        done += len(leases)
        await asyncio.sleep(WORK_SECONDS)
        if leases:
            await executor.send(reports=[success(each) for each in leases])
            await executor.credit(len(leases))


async def killed_again_and_again(
    database_url: str, redis_url: str, redis_prefix: str, started: asyncio.Queue[str]
) -> None:
    settings = {"job_types": json.dumps(JOB_TYPES), "queues": json.dumps(QUEUES)}
    places, address = (database_url, redis_url, redis_prefix), "127.0.0.1:0"
    for _ in range(KILLS_OF_EACH):
        async with a_worker_process(*places, address=address, **settings) as worker:
            address = worker.address
            started.put_nowait(address)
            await asyncio.sleep(1.5)  # at the end of the block it is killed, whatever it is about
    async with a_worker_process(*places, address=address, **settings):
        await asyncio.Event().wait()


@asynccontextmanager
async def workers(database_url: str, redis_url: str, redis_prefix: str) -> AsyncIterator[None]:
    started = asyncio.Queue[str]()
    tasks = [
        asyncio.create_task(killed_again_and_again(database_url, redis_url, redis_prefix, started))
        for _ in range(2)
    ]
    tasks += [asyncio.create_task(serve(await started.get())) for _ in tasks]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_all_succeeded(control: Control) -> None:
    wanted = pb.ListJobsRequest(filter=pb.JobFilter(states=[job_pb2.JOB_STATE_SUCCEEDED]), page_size=1_000)
    async with asyncio.timeout(90):
        while len((await control.stub.ListJobs(wanted)).jobs) < JOBS:  # noqa: ASYNC110 - many jobs' ends
            await asyncio.sleep(0.1)


async def test_limits_hold_while_workers_are_killed_and_no_place_is_lost(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    places = (database_url, redis_url, redis_prefix)
    async with control_running(*places, job_types=JOB_TYPES, queues=QUEUES, loops=LOOPS) as control:
        for number in range(JOBS):
            await control.create(owner=OWNERS[number % len(OWNERS)])
        async with workers(*places):
            await until_all_succeeded(control)
        found = await spans(control.transactions)

    assert found.keys() == set(map(Owner, OWNERS))
    assert max(most_at_once(each) for each in found.values()) == 2
    assert most_at_once([span for each in found.values() for span in each]) == 5
