"""What is measured, the same for every engine."""

from __future__ import annotations

import asyncio
import json
import math
import os
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from bench.accounting import Account, costs
from bench.child import REPOSITORY
from bench.engine import Engine, Stack, Way
from bench.load import NOT_SERVED

Metrics = Mapping[str, float]

BATCH = 1_000
"""Jobs to a call in bulk; as much as CreateJobs takes."""
LATENCY_PER_SECOND = 20.0
WARM_UP_JOBS = 300

_JOBS_MIN, _JOBS_MAX = 500, 60_000
_WAIT_SECONDS_MAX = 120.0
_POLL_SECONDS = 0.05


class NotServed(Exception):
    """The engine does not serve this way of creating jobs."""


class NotDone(Exception):
    """Jobs did not end in time, or not all of them well."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load process said."""

    start_time: float
    create_seconds: float
    cpu_seconds: float
    latencies: Mapping[str, Sequence[float]]


def jobs_for(seconds: float, per_second: float) -> int:
    """How many jobs keep an engine of that rate busy for so long, within bounds."""
    return min(_JOBS_MAX, max(_JOBS_MIN, int(per_second * seconds)))


async def warm_up(stack: Stack, engine: Engine, way: Way = Way.UNARY, jobs: int = WARM_UP_JOBS) -> float:
    """Create and run some jobs, so that nothing is done for the first time later; return their rate."""
    return (await create_and_run(stack, engine, way, jobs))["jobs_per_s"]


async def create_and_run(stack: Stack, engine: Engine, way: Way, jobs: int) -> Metrics:
    """Create jobs as fast as it goes while an executor runs them: from the first call to the last success."""
    async with _account(stack) as (since, before):
        loaded = await _load(stack, way, jobs, engine)
        done = await _until_done(stack, since, jobs)
    after = await Account.opened(stack)
    return {
        "jobs_per_s": jobs / (done.timestamp() - loaded.start_time),
        "creates_per_s": jobs / loaded.create_seconds,
        "jobs": jobs,
        **costs(before, after, jobs=jobs, client_seconds=loaded.cpu_seconds),
    }


async def drain(stack: Stack, engine: Engine, jobs: int) -> Metrics:
    """Run a backlog with one executor process that starts now: from its first claim to the last success."""
    since = await _now(stack)
    try:
        await _load(stack, Way.BULK, jobs, engine)
    except NotServed:
        await _load(stack, Way.UNARY, jobs, engine)
    await stack.database.tidy()
    async with _account(stack) as (_, before):
        await stack.start_executor()
        last = await _until_done(stack, since, jobs)
    after = await Account.opened(stack)
    first = (await stack.done(since)).first_claim
    assert first is not None
    return {
        "jobs_per_s": jobs / (last - first).total_seconds(),
        "jobs": jobs,
        **costs(before, after, jobs=jobs),
    }


async def latency(stack: Stack, engine: Engine, jobs: int) -> tuple[Metrics, Mapping[str, Sequence[float]]]:
    """Create jobs at an even, low rate; return the metrics, and the latencies that they are of."""
    async with _account(stack) as (since, before):
        loaded = await _load(stack, "paced", jobs, engine)
        await _until_done(stack, since, jobs)
    after = await Account.opened(stack)
    metrics = {
        f"{name}_ms_{label}": percentile(loaded.latencies[name], share)
        for name in ("call", "start")
        for label, share in (("p50", 0.5), ("p99", 0.99))
    }
    spent = costs(before, after, jobs=jobs, client_seconds=loaded.cpu_seconds)
    return {**metrics, "jobs": jobs, **spent}, loaded.latencies


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value of the nearest rank."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


@asynccontextmanager
async def _account(stack: Stack) -> AsyncIterator[tuple[datetime, Account]]:
    await stack.database.forget_statements()
    yield await _now(stack), await Account.opened(stack)


async def _now(stack: Stack) -> datetime:
    now = await stack.database.value("select clock_timestamp()")
    assert isinstance(now, datetime)
    return now


async def _load(stack: Stack, way: str, jobs: int, engine: Engine) -> Loaded:
    marks = stack.directory / "marks"
    arguments = {
        "--jobs": jobs,
        "--callers": engine.callers,
        "--batch": BATCH,
        "--per-second": LATENCY_PER_SECOND,
        "--marks": marks,
    }
    process = await asyncio.create_subprocess_exec(
        *stack.load_command(way),
        *(str(each) for pair in arguments.items() for each in pair),
        env=os.environ,
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _WAIT_SECONDS_MAX)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise NotDone(f"{jobs} jobs could not be created in {_WAIT_SECONDS_MAX:.0f} s") from None
    if process.returncode == NOT_SERVED:
        raise NotServed(f"{engine.name} does not serve {way} creates")
    if process.returncode != 0:
        raise NotDone(f"the load process for {engine.name} failed")
    return Loaded(**json.loads(output))


async def _until_done(stack: Stack, since: datetime, jobs: int) -> datetime:
    """Wait until so many jobs have succeeded; return when the last one did, by the database's clock."""
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while True:
        if not await stack.busy():
            done = await stack.done(since)
            if done.jobs >= jobs and done.last_success is not None:
                return done.last_success
        if time.monotonic() > deadline:
            done = await stack.done(since)
            raise NotDone(f"{done.jobs} of {jobs} jobs succeeded within {_WAIT_SECONDS_MAX:.0f} s")
        await asyncio.sleep(_POLL_SECONDS)
