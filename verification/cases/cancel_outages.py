"""Case 4, in outages: a cancel that nobody could deliver is delivered when all is back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from shared.gen.baton.v1 import job_pb2
from verification.cases import views
from verification.evidence.history import OK
from verification.evidence.ledger import FINISHED, STARTED
from verification.stage.stage import GRACE_SECONDS, Stage
from verification.unmet import require

_LONG_SECONDS = 60.0
_SHORT_SECONDS = 5.0
_NOT_SOON_SECONDS = 600.0
_BACK_SOON: Mapping[str, Any] = MappingProxyType({"reconnect_seconds_max": 0.5})
"""The grace period begins again when the service is back; with a tenth of it, so must all else be shorter."""


async def of_the_worker(stage: Stage) -> None:
    """A cancel that finds the worker down is delivered once it is back, and drops a result made meanwhile."""
    await stage.executors.start("a", queues__drill__at_once=2, **_BACK_SOON)
    running, finishing = await _started(stage, _LONG_SECONDS, _SHORT_SECONDS)
    with stage.held_down("worker"):
        for job_id in (running, finishing):
            await _require_requested(await stage.control.cancel(job_id))
        await stage.until(
            lambda: stage.ledger.phases_of(finishing)[-1] == FINISHED, seconds=30, what="a handler to finish"
        )
        await asyncio.sleep(GRACE_SECONDS)  # nobody's silence: the executor can't have heard
    for job_id in (running, finishing):
        await stage.control.until_ended(job_id)
        await _require_stopped(stage, job_id)
    phases = stage.ledger.phases_of(running)
    require(phases == [STARTED, "cancelled"], f"the handler that was to be told wrote {phases}")
    job = await stage.control.get(running)
    require(job.cancellation.HasField("seen_time"), "the executor did not say that it has seen the cancel")


async def of_the_api(stage: Stage) -> None:
    """A cancel that finds the API down is repeated until it is acknowledged, and then holds."""
    await stage.executors.start("a", queues__drill__at_once=1)
    running, queued = await _started(stage, _LONG_SECONDS), await _not_yet_due(stage)
    with stage.held_down("api"):
        asked = [stage.beside(stage.control.cancel(job_id)) for job_id in (running[0], queued.job_id)]
        await stage.until(lambda: _refusals(stage) >= len(asked), seconds=30, what="calls to be refused")
        require(not any(each.done() for each in asked), "a cancel was answered though the API was down")
    await asyncio.gather(*asked)
    for job_id in (running[0], queued.job_id):
        await stage.control.until_ended(job_id)
        await _require_stopped(stage, job_id)
    require(not stage.ledger.of(queued.job_id), "a handler ran a job that was cancelled while it was queued")


async def of_everything(stage: Stage) -> None:
    """A cancel outlives the death of every process and both servers between its request and its delivery."""
    await stage.executors.start("a", **_BACK_SOON)
    (running,) = await _started(stage, _LONG_SECONDS)
    with stage.held_down("worker"):
        await _require_requested(await stage.control.cancel(running))
        lives = [stage.kill(name) for name in ("api", "valkey", "postgres")]
    for each in lives:
        await stage.restarted(each)
    await stage.control.until_ended(running)
    await _require_stopped(stage, running)
    phases = stage.ledger.phases_of(running)
    require(phases == [STARTED, "cancelled"], f"the handler that was to be told wrote {phases}")


async def _started(stage: Stage, *durations: float) -> list[str]:
    """Create a job of each duration, and wait until their handlers run and the service knows it."""
    jobs = [await stage.control.create(stage.work(duration_seconds=each)) for each in durations]
    for job in jobs:
        await stage.until_accepted(job.job_id)
        await stage.until_begun(job.job_id)
    return [each.job_id for each in jobs]


async def _not_yet_due(stage: Stage) -> job_pb2.Job:
    """Create a job that stays queued, also when the other one's end leaves its executor free."""
    return await stage.control.create(stage.work(), run_time=await stage.due_in(_NOT_SOON_SECONDS))


async def _require_requested(job: job_pb2.Job) -> None:
    state = views.word(job_pb2.JobState, job.state)
    requested = job.cancellation.HasField("request_time")
    require(
        state == "RUNNING" and requested, f"the answer tells {state}, with a cancel requested: {requested}"
    )


async def _require_stopped(stage: Stage, job_id: str) -> None:
    """Require that a job is CANCELLED, not by force, after one start at most."""
    job = await views.require_agreement(stage, job_id)
    state = views.word(job_pb2.JobState, job.state)
    require(state == "CANCELLED", f"a job whose cancel was acknowledged is {state}")
    require(not job.cancellation.forced, "a job was ended by force though its executor was connected again")
    require(job.attempt <= 1, f"a job whose cancel was acknowledged had {job.attempt} attempts")


def _refusals(stage: Stage) -> int:
    """How many jobs' cancels were not acknowledged, once at least."""
    calls = [each for each in stage.history.calls if each.method == "CancelJob" and each.status != OK]
    return len({each.request["jobId"] for each in calls})
