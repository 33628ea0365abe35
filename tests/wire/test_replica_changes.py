"""Executors whose replica of the service stops: for a while, for good, or in its tracks."""

from __future__ import annotations

import asyncio
import signal
from uuid import UUID, uuid4

import grpc
import pytest

from shared.gen.baton.v1 import execution_service_pb2 as pb
from tests.support.execution_service import Execution, execution_running
from tests.support.executors import an_executor
from tests.support.service_process import a_worker_process
from verification.peers.cuttable import cuttable
from verification.peers.executor import SYNTHETIC, ScriptedExecutor
from verification.stage.freezing import frozen

HEARTBEAT_SECONDS = 3.0
LEASE_SECONDS = HEARTBEAT_SECONDS * 3
LIMIT_SECONDS = 30.0

Servers = tuple[str, str, str]


@pytest.fixture
def servers(database_url: str, redis_url: str, redis_prefix: str) -> Servers:
    return database_url, redis_url, redis_prefix


async def session_of(execution: Execution) -> UUID:
    [row] = await execution.rows("select session_id from executor_sessions")
    session_id: UUID = row.session_id
    return session_id


async def until_another_session(execution: Execution, before: UUID, *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while await session_of(execution) == before:  # noqa: ASYNC110 - the executor has no event of ours
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [
        pytest.param(1, HEARTBEAT_SECONDS * 2, id="which it reaches at once"),
        pytest.param(2, LEASE_SECONDS * 1.5, id="which it reaches with its second attempt"),
    ],
)
async def test_when_its_replica_is_stopped_in_its_tracks_an_executor_takes_its_lease_to_another(
    servers: Servers, attempts: int, seconds: float
) -> None:
    async with (
        execution_running(*servers, queues={"drill": {"lease_seconds": LEASE_SECONDS}}) as other,
        a_worker_process(*servers, queues__drill__lease_seconds=str(LEASE_SECONDS)) as stopped,
        cuttable(*[f"tcp://{stopped.address}"] * attempts, f"tcp://{other.address}") as way,
        an_executor(way.address),
    ):
        await other.until_row("select 1 from executor_sessions")
        job_id = await other.job(input=b'{"duration_seconds": 10}')
        await other.until_row("select 1 from leases where accepted")
        before = await session_of(other)

        with frozen(stopped.process.pid):
            await until_another_session(other, before, seconds=seconds)
            await other.until_event(job_id, "succeeded")

        assert await other.outcomes(job_id) == ["succeeded"]


async def test_when_one_of_the_replicas_stops_its_executors_move_to_the_others_before_its_end(
    servers: Servers,
) -> None:
    async with (
        execution_running(*servers) as other,
        cuttable(f"tcp://{other.address}") as way,
        a_worker_process(*servers, sessions__drain_seconds="20") as stopping,
    ):
        await way.cut()
        async with an_executor(f"ipv4:{stopping.address},{way.address}"):
            await other.until_row("select 1 from executor_sessions")
            job_id = await other.job(input=b'{"duration_seconds": 3}')
            await other.until_row("select 1 from leases where accepted")
            before = await session_of(other)
            await way.mend()

            stopping.process.send_signal(signal.SIGTERM)
            await until_another_session(other, before, seconds=LIMIT_SECONDS / 3)
            async with asyncio.timeout(LIMIT_SECONDS / 3):
                assert await stopping.process.wait() == 0
            await other.until_event(job_id, "succeeded")
            assert await other.outcomes(job_id) == ["succeeded"]


async def test_a_replica_that_stops_welcomes_nobody_and_says_why(servers: Servers) -> None:
    async with (
        a_worker_process(*servers, sessions__drain_seconds="20") as stopping,
        ScriptedExecutor.connected(stopping.address) as present,
        ScriptedExecutor.connected(stopping.address) as late,
    ):
        await present.hello()
        stopping.process.send_signal(signal.SIGTERM)
        await present.until(lambda: present.drained)

        hello = pb.Hello(executor_name="late", incarnation_id=str(uuid4()), capabilities=[SYNTHETIC])
        await late.send(hello=hello)
        late.listen()
        assert await late.until_over() is grpc.StatusCode.UNAVAILABLE
        assert late.error is not None
        assert late.error.details() == "the service stops; try again"

        await present.goodbye()
        async with asyncio.timeout(LIMIT_SECONDS):
            assert await stopping.process.wait() == 0


async def test_when_the_only_replica_stops_its_executors_keep_their_sessions_to_the_end_and_come_back(
    servers: Servers,
) -> None:
    async with execution_running(*servers) as jobs:  # makes them, and has no executors
        async with a_worker_process(*servers, sessions__drain_seconds="3") as stopping:
            address = stopping.address
            running = an_executor(address)
            executor = await running.__aenter__()
            await jobs.until_row("select 1 from executor_sessions")
            job_id = await jobs.job(input=b'{"duration_seconds": 2}')
            await jobs.until_row("select 1 from leases where accepted")
            before = await session_of(jobs)

            stopping.process.send_signal(signal.SIGTERM)
            await jobs.until_event(job_id, "succeeded")
            assert await session_of(jobs) == before
            async with asyncio.timeout(LIMIT_SECONDS):
                assert await stopping.process.wait() == 0

        async with a_worker_process(*servers, address=address):
            await until_another_session(jobs, before, seconds=LIMIT_SECONDS)
            await jobs.until_event(await jobs.job(), "succeeded")
        assert not executor.done()
        await running.__aexit__(None, None, None)
