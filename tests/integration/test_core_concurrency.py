"""Random commands on the real core by many actors at once: no command may wait for another in a circle, no
promise may be broken, and whatever they leave behind comes to its end.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from uuid import UUID

import pytest

from shared.domain.identity import IncarnationId
from tests.support import core_rows
from tests.support.core_actors import Actor, Record
from tests.support.core_commands import Core, open_core
from tests.support.core_invariants import faults_of
from tests.support.core_reports import Report
from tests.support.racing_time import RacingTime
from tests.support.storage import Session

CALLERS = ((6, "create"), (3, "create_with_keys"), (4, "cancel"))
LOOPS = (
    (12, "dispatch"),
    (2, "dispatch_and_crash"),
    (2, "sweep"),
    (1, "sweep_start_by"),
    (5, "reap"),
    (1, "wipe"),
)
WORKERS = (
    (10, "claim"),
    (6, "heartbeat"),
    (3, "see_cancels"),
    (8, "report"),
    (3, "hello"),
    (1, "goodbye"),
    (2, "pulse"),
)
TIME = ((3, "jump"), (6, "pulse"))
ACTORS = (CALLERS, CALLERS, LOOPS, LOOPS, TIME, *(WORKERS for _ in range(6)))
ROUNDS_MAX = 60
LEASES_MIN = 50
"""With fewer nothing is tried; a busy machine gets more time for them."""


async def run_actors(database_url: str, redis_url: str, prefix: str, *, seed: int, seconds: float) -> None:
    """Let all actors act, judge what they left behind, and bring it to its end."""
    async with open_core(database_url, redis_url, prefix=prefix, pool_size=len(ACTORS)) as core:
        time = RacingTime(core.transactions)
        await time.make_movable()
        record = Record()
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        async with asyncio.TaskGroup() as group:
            for number, commands in enumerate(ACTORS):
                actor = Actor(core.replica(number + 1), time, record, random.Random(seed * 100 + number))
                group.create_task(
                    actor.act(commands, lambda: clock() < until or len(record.leases) < LEASES_MIN)
                )
        assert not record.faults, record.faults
        await judge(core, record)
        await bring_to_its_end(core, time, record)
        await judge(core, record)


async def judge(core: Core, record: Record) -> None:
    everything = await core_rows.read_all(core.transactions)
    assert faults_of(everything) == []
    assert set(record.created) <= set(everything)
    assert [each for each in record.bound.values() if len(each) > 1] == []
    for job_id, rows in everything.items():
        assert record.granted[job_id] == rows.job["attempt"]
        assert not (job_id in record.cancelled and rows.job["state"] in ("SUCCEEDED", "FAILED"))
        assert record.successes(job_id) <= (rows.job["state"] == "SUCCEEDED")


async def bring_to_its_end(core: Core, time: RacingTime, record: Record) -> None:
    """One executor and the loops are enough for whatever is unfinished."""
    session, _ = await core.hello(IncarnationId(UUID(int=99 << 64)), [])
    for _ in range(ROUNDS_MAX):
        await core.pulse()
        await time.jump(timedelta(minutes=1))
        await core.pulse()
        await time.jump(timedelta(seconds=1))
        await core.reap()
        await core.sweep()
        if not await work_off(core, session, record):
            break
    states = {rows.job["state"] for rows in (await core_rows.read_all(core.transactions)).values()}
    assert states <= {"SUCCEEDED", "FAILED", "CANCELLED"}


async def work_off(core: Core, session: Session, record: Record) -> bool:
    """Dispatch, claim and report once; False if nothing is left."""
    await core.tell_demand(1_000)
    await core.dispatch()
    # What workers took and died over keeps room in the streams until somebody takes it over.
    taken = [*await core.take("last worker", 1_000), *await core.take_over("last worker")]
    entries = {each.job_id: each for each in taken}
    leases = [each.ref for each in await core.claim([(session, each) for each in entries.values()])]
    record.granted.update(each.job_id for each in leases)
    await core.report([(each, Report.SUCCESS) for each in leases])
    everything = await core_rows.read_all(core.transactions)
    return any(rows.job["finish_time"] is None for rows in everything.values())


@pytest.mark.parametrize("seed", [1])
async def test_many_actors_at_once_break_no_promise_and_leave_nothing_stuck(
    database_url: str, redis_url: str, redis_prefix: str, seed: int
) -> None:
    await run_actors(database_url, redis_url, redis_prefix, seed=seed, seconds=5)


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 12))
async def test_many_actors_at_once_break_no_promise_for_a_long_time(
    database_url: str, redis_url: str, redis_prefix: str, seed: int
) -> None:
    await run_actors(database_url, redis_url, redis_prefix, seed=seed, seconds=30)
