"""Case 3: Redis loses everything, and no job, no call and no handler is the worse for it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.cases import views
from verification.cases.case import Case
from verification.evidence.ledger import FINISHED, STARTED
from verification.evidence.tables import OF_RUN
from verification.stage.executors import Executor
from verification.stage.holds import held
from verification.stage.redis_contents import RedisContents
from verification.stage.stage import Stage
from verification.unmet import require

_JOBS = 500
_JOBS_MIN = 100
_WIPED_SHARE = 0.3
_STOPPED_SHARE = 0.6
_STOPPED_SECONDS = 10.0
_BACK_SECONDS = 60.0
"""After the return of Redis everything must have ended."""

_JOB_SECONDS = 0.5
_AT_ONCE = 4
"""Of four executors, so that some thirty jobs a second leave work for after each fault."""
_CROSSING_SECONDS = _STOPPED_SECONDS + 5.0
"""More than the outage, for a job that starts shortly before it."""
_ENDING_SECONDS = 5.0
"""Less, for one whose result comes meanwhile."""
_STOPPING_SECONDS = 120.0
_FIRST = pb.JobOverrides(priority=0)
_CALLERS = 20
_CREATED_MEANWHILE = 10

_EMPTY_SECONDS = 45.0
"""Entries of attempts that were sent twice are refused when an executor asks next, or after a sweep."""
_GROWTH_BYTES_MAX = 4 << 20
"""For the events' copy and the buffers of connections."""

_OTHERS = f"""
select count(*) from jobs where {OF_RUN} and not (state = 'SUCCEEDED' and failures + losses = 0)
"""
_CANCELLED_MEANWHILE = 2
_WAITING = f"""
select count(*) from outbox join jobs on job_id = aggregate_id
where {OF_RUN} and event_type = 'job.dispatch' and outbox.state = 'delivered'
"""
_LOCK_QUEUED = f"select from jobs where {OF_RUN} and state = 'QUEUED' order by job_id for update"


async def wiped_then_started_empty(stage: Stage) -> None:
    """Redis is wiped, and later away and then empty: calls and handlers go on, and every job succeeds."""
    redis = RedisContents(stage.stack.redis_url)
    used_before = await redis.used_bytes()
    count = stage.scaled(_JOBS, at_least=_JOBS_MIN)
    await _create(stage, count)
    executors = await stage.executors.start_all("a", "b", "c", "d", queues__drill__at_once=_AT_ONCE)
    lives = _lives(stage, executors)

    await _until_done(stage, round(count * _WIPED_SHARE))
    await _wipe(stage, redis)
    await _until_done(stage, round(count * _STOPPED_SHARE))
    crossing = await _live_through_an_outage(stage)

    back = stage.history.now()
    await stage.until_ended(seconds=_BACK_SECONDS)
    stage.notes["seconds to the end"] = round(stage.history.now() - back, 1)
    require(_lives(stage, executors) == lives, f"something was restarted: {_lives(stage, executors)}")
    phases = stage.ledger.phases_of(crossing.job_id)
    require(phases == [STARTED, FINISHED], f"the handler that ran across the outage wrote {phases}")
    others = await stage.value(_OTHERS, stage.run)
    require(
        others == _CANCELLED_MEANWHILE,
        f"{others} jobs failed, were cancelled, or have lost attempts; {_CANCELLED_MEANWHILE} were cancelled",
    )
    await _until_empty(stage, redis, used_before)


async def wiped_while_entries_are_pending(stage: Stage) -> None:
    """Redis is wiped while a claim of what was taken from it is under way, and every job starts once."""
    redis = RedisContents(stage.stack.redis_url)
    used_before = await redis.used_bytes()
    jobs = await _create(stage, stage.scaled(_JOBS // 10, at_least=_JOBS_MIN // 5))
    async with held(stage, _LOCK_QUEUED, stage.run):
        executors = await stage.executors.start_all("a", "b", queues__drill__at_once=_AT_ONCE)
        lives = _lives(stage, executors)
        stage.notes["entries pending"] = await _until_pending(redis)
        stage.history.fault("valkey", "wiped")
        await redis.wipe()
    await stage.until_ended(seconds=_BACK_SECONDS)
    require(_lives(stage, executors) == lives, f"something was restarted: {_lives(stage, executors)}")
    starts = sorted(each.job_id for each in stage.ledger.entries() if each.phase == STARTED)
    require(starts == sorted(each.job_id for each in jobs), f"{len(jobs)} jobs started {len(starts)} times")
    await _until_empty(stage, redis, used_before)


async def _wipe(stage: Stage, redis: RedisContents) -> None:
    """Wipe Redis while it holds something that somebody waits for."""
    stage.notes["entries lost by the wipe"] = await stage.until_value(
        _WAITING, stage.run, holds=lambda count: count > 0, seconds=_BACK_SECONDS, what="waiting entries"
    )
    stage.history.fault("valkey", "wiped")
    await redis.wipe()


async def _live_through_an_outage(stage: Stage) -> job_pb2.Job:
    """Take Redis away, use the engine, bring Redis back empty; return the job that ran across."""
    crossing, _, stopping = started = [
        await stage.control.create(stage.work(duration_seconds=seconds), overrides=_FIRST)
        for seconds in (_CROSSING_SECONDS, _ENDING_SECONDS, _STOPPING_SECONDS)
    ]
    for each in started:
        await stage.until_begun(each.job_id)
    with stage.held_down("valkey"):
        down = stage.history.now()
        for kept in (stage.stack.directory / "valkey").iterdir():
            shutil.rmtree(kept)
        done = await stage.jobs("SUCCEEDED")
        await _use(stage, stopping)
        await _until_done(stage, done + 1)
        await asyncio.sleep(max(0.0, _STOPPED_SECONDS - (stage.history.now() - down)))
        stage.notes["seconds away"] = round(stage.history.now() - down, 1)
    return crossing


async def _use(stage: Stage, stopping: job_pb2.Job) -> None:
    """Create, read and cancel while Redis is away; each call is made once, and must be answered."""
    created = []
    for _ in range(_CREATED_MEANWHILE):
        request = stage.control.creation(stage.work(duration_seconds=_JOB_SECONDS))
        created.append((await stage.control.call("CreateJob", request)).job)
    read = (await stage.control.call("GetJob", pb.GetJobRequest(job_id=created[0].job_id))).job
    require(
        read.state == job_pb2.JOB_STATE_QUEUED, f"a job that can't have started is {views.described(read)}"
    )
    for job in (created[1], stopping):
        await stage.control.call("CancelJob", pb.CancelJobRequest(job_id=job.job_id))
        ended = await stage.control.until_ended(job.job_id, seconds=30)
        require(
            ended.state == job_pb2.JOB_STATE_CANCELLED, f"a cancelled job ended as {views.described(ended)}"
        )
        require(not ended.cancellation.forced, "the handler was not told of the cancel")


async def _create(stage: Stage, count: int) -> Sequence[job_pb2.Job]:
    free = asyncio.Semaphore(_CALLERS)

    async def one() -> job_pb2.Job:
        async with free:
            return await stage.control.create(stage.work(duration_seconds=_JOB_SECONDS))

    return await asyncio.gather(*(one() for _ in range(count)))


async def _until_done(stage: Stage, count: int) -> None:
    await stage.until_jobs(
        "SUCCEEDED", holds=lambda done: done >= count, seconds=_BACK_SECONDS, what=f"{count} results"
    )


async def _until_pending(redis: RedisContents) -> int:
    async with asyncio.timeout(_BACK_SECONDS):
        while not (pending := await redis.pending()):  # noqa: ASYNC110 - Redis has no event of ours
            await asyncio.sleep(0.02)
    return pending


async def _until_empty(stage: Stage, redis: RedisContents, used_before: int) -> None:
    """Wait until nothing is left in any lease stream, and look at the memory then."""
    deadline = stage.history.now() + _EMPTY_SECONDS
    while (left := (await redis.entries(), await redis.pending())) != (0, 0):
        require(stage.history.now() < deadline, f"{left[0]} entries are left in streams, {left[1]} pending")
        await asyncio.sleep(0.2)
    used = await redis.used_bytes()
    stage.notes["memory before and after"] = [used_before, used]
    require(used < used_before + _GROWTH_BYTES_MAX, f"Redis used {used_before} bytes, and uses {used} now")


def _lives(stage: Stage, executors: Sequence[Executor]) -> Mapping[str, int | None]:
    """The process of everything that must outlive the loss of Redis."""
    services = {name: stage.stack.life(name).process_id for name in ("api", "worker", "postgres")}
    return services | {each.name: each.process_id for each in executors}


CASE = Case(3, "Redis wiped", (wiped_then_started_empty, wiped_while_entries_are_pending))
