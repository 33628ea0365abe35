"""An executor whose way to the service swallows all that is sent, or breaks, comes back with its leases."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from shared.domain.identity import JobId
from shared.rpc.channel import CLIENT_PING_SECONDS, PING_TIMEOUT_SECONDS
from tests.support.execution_service import Execution, execution_running
from tests.support.executors import an_executor
from verification.peers.cuttable import Cuttable, Direction, cuttable

HEARTBEAT_SECONDS = 3.0
QUICK_LEASES = {"drill": {"lease_seconds": HEARTBEAT_SECONDS * 3}}
SECONDS_UNTIL_PINGED = CLIENT_PING_SECONDS + PING_TIMEOUT_SECONDS + 3.0
"""With some time for a busy machine, and to connect."""
SETTLED_SECONDS = SECONDS_UNTIL_PINGED * 2
"""The side that heard nothing of a break notices within a ping and its time-out, each a little late."""

TROUBLES = {
    "one": (Direction.TO_SERVER,),
    "the other": (Direction.TO_CLIENT,),
    "both": (Direction.TO_SERVER, Direction.TO_CLIENT),
    "reset": (),
}

Servers = tuple[str, str, str]


@pytest.fixture
def servers(database_url: str, redis_url: str, redis_prefix: str) -> Servers:
    return database_url, redis_url, redis_prefix


@asynccontextmanager
async def reached_by_a_way(servers: Servers) -> AsyncIterator[tuple[Execution, Cuttable]]:
    """A service, and an executor that reaches it by a way of its own and has a session."""
    async with (
        execution_running(*servers, queues=QUICK_LEASES) as execution,
        cuttable(f"tcp://{execution.address}") as way,
        an_executor(way.address),
    ):
        await execution.until_row("select 1 from executor_sessions")
        yield execution, way


async def a_running_job(execution: Execution, seconds: float) -> JobId:
    given = f'{{"duration_seconds": {seconds}}}'.encode()
    job_id = await execution.job(input=given)
    await execution.until_row("select 1 from leases where accepted")
    return job_id


async def session_of(execution: Execution) -> UUID:
    [row] = await execution.rows("select session_id from executor_sessions")
    session_id: UUID = row.session_id
    return session_id


def trouble(way: Cuttable, kind: str) -> None:
    """Spoil the connections that stand; new ones come through."""
    if TROUBLES[kind]:
        way.swallow(*TROUBLES[kind])
        way.heal()
    else:
        way.reset()


async def until_another_session(execution: Execution, before: UUID, *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while await session_of(execution) == before:  # noqa: ASYNC110 - the executor has no event of ours
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("kind", TROUBLES)
async def test_an_executor_that_is_cut_off_comes_back_within_two_heartbeats_with_its_lease(
    servers: Servers, kind: str
) -> None:
    async with reached_by_a_way(servers) as (execution, way):
        job_id = await a_running_job(execution, HEARTBEAT_SECONDS * 2.5)
        before = await session_of(execution)

        trouble(way, kind)

        await until_another_session(execution, before, seconds=HEARTBEAT_SECONDS * 2)
        await execution.until_event(job_id, "succeeded")
        assert await execution.outcomes(job_id) == ["succeeded"]


async def test_a_lease_that_ended_meanwhile_is_refused_and_its_handler_stopped(servers: Servers) -> None:
    async with reached_by_a_way(servers) as (execution, way):
        job_id = await a_running_job(execution, 600)
        before = await session_of(execution)
        trouble(way, "both")
        # What the reaper does to a lease without heartbeats, but at once.
        await execution.execute("update leases set token = '2.another' where job_id = :job_id", job_id=job_id)

        await until_another_session(execution, before, seconds=HEARTBEAT_SECONDS * 2)

        next_job = await execution.job()
        await execution.until_event(next_job, "succeeded")
        assert "succeeded" not in {each.kind for each in await execution.events(job_id)}


@pytest.mark.prove
@pytest.mark.parametrize("kind", [kind for kind, directions in TROUBLES.items() if directions])
async def test_an_executor_without_leases_notices_by_pings_that_it_is_cut_off(
    servers: Servers, kind: str
) -> None:
    async with reached_by_a_way(servers) as (execution, way):
        before = await session_of(execution)
        trouble(way, kind)

        await until_another_session(execution, before, seconds=SECONDS_UNTIL_PINGED)

        await execution.until_event(await execution.job(), "succeeded")
        await settled(way, {})


@pytest.mark.timeout(300)
@pytest.mark.prove
async def test_after_twenty_breaks_of_all_kinds_nothing_is_left_of_them(servers: Servers) -> None:
    """Service and executor run in this process, so whatever either of them left behind is counted here."""
    async with reached_by_a_way(servers) as (execution, way):
        job_id = await a_running_job(execution, 300)
        kinds = itertools.cycle(TROUBLES)
        for _ in TROUBLES:  # pools fill up to their sizes
            await break_and_come_back(execution, way, next(kinds))
        await settled(way, held())
        before = held()

        for _ in range(20):
            await break_and_come_back(execution, way, next(kinds))
        await settled(way, before)
        await execution.cancel(job_id)
        await execution.until_event(job_id, "cancelled")


async def break_and_come_back(execution: Execution, way: Cuttable, kind: str) -> None:
    before = await session_of(execution)
    trouble(way, kind)
    await until_another_session(execution, before, seconds=HEARTBEAT_SECONDS * 2)


async def settled(way: Cuttable, most: dict[str, int]) -> None:
    """Wait until only the session's own connection is left, and no more of anything else than before."""
    try:
        async with asyncio.timeout(SETTLED_SECONDS):
            # What gRPC's core holds tells nobody.
            while way.open > 1 or any(held()[what] > most[what] for what in most):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{way.open} connections, {held()}; before: {most}") from None


def held() -> dict[str, int]:
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "file descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }
