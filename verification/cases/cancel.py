"""Case 4: a job whose cancel was acknowledged stops soon and never succeeds, and all tell the same."""

from __future__ import annotations

from datetime import datetime

from shared.gen.baton.v1 import execution_service_pb2 as pb_execution
from shared.gen.baton.v1 import job_pb2
from verification.cases import cancel_outages, cancel_races, views
from verification.cases.case import Case
from verification.evidence.ledger import FINISHED, STARTED
from verification.peers.control import Refused
from verification.peers.executor import failure, ref, success
from verification.stage.stage import GRACE_SECONDS, Stage
from verification.unmet import require

SEEN_SECONDS_MAX = 1.0
"""How soon an executor that is connected says that it knows."""
SLACK = 3
"""How many times as long anything may take on a machine that is busy with others."""
_REAPER_SECONDS = 3.0
"""The service looks every few seconds for what is overdue."""
_KEEPER_SHARE = 0.75
"""An executor ends a handler somewhat before the service would, so that its report is in time."""
_RUNNING_JOBS = 4
_LONG_SECONDS = 60.0


async def queued_never_starts(stage: Stage) -> None:
    """A queued job is cancelled at once, and no handler ever sees it."""
    waiting = [await stage.control.create(stage.work()) for _ in range(3)]
    cancelled = await stage.control.cancel(waiting[0].job_id)
    state = views.word(job_pb2.JobState, cancelled.state)
    require(state == "CANCELLED", f"the answer to the cancel of a queued job tells that it is {state}")
    await _require_refused(stage, waiting[0].job_id, "JOB_ALREADY_CANCELLED")
    await stage.executors.start("a")
    for each in waiting[1:]:
        await stage.control.until_ended(each.job_id)
        await _require_refused(stage, each.job_id, "JOB_NOT_CANCELLABLE")
    job = await views.require_agreement(stage, waiting[0].job_id)
    require(job.attempt == 0, f"a cancelled job has {job.attempt} attempts")
    require(not stage.ledger.of(job.job_id), "a handler ran a job that had been cancelled before it started")


async def between_attempts_ends_at_once(stage: Stage) -> None:
    """A job that waits for its next attempt is cancelled at once, and gets none."""
    async with stage.scripted("a") as a:
        await a.hello(credits=2)
        job = await stage.control.create()
        lease = await a.lease()
        report = failure(lease, "PROVIDER_UNAVAILABLE")
        report.failure.retry_after.FromSeconds(2)
        await a.report(report)
        cancelled = await stage.control.cancel(job.job_id)
        state = views.word(job_pb2.JobState, cancelled.state)
        require(state == "CANCELLED", f"a job between attempts is {state} once its cancel was acknowledged")
        other = await stage.control.create(run_time=await stage.due_in(3))
        second = (await a.leases_when(2))[1]
        require(second.job_id == other.job_id, "the next attempt of a cancelled job was handed out")
        await a.succeed(second)
    await views.require_agreement(stage, job.job_id)
    await views.require_outcomes(stage, job.job_id, ["FAILED"])


async def running_is_told_within_a_second(stage: Stage) -> None:
    """Running handlers are told within a second, stop, and leave their places to others."""
    a = await stage.executors.start("a", queues__drill__at_once=_RUNNING_JOBS)
    jobs = [await _started(stage, duration_seconds=_LONG_SECONDS) for _ in range(_RUNNING_JOBS)]
    seen = []
    for job_id in jobs:
        await stage.control.cancel(job_id)
        job = await stage.control.until_ended(job_id)
        require(not job.cancellation.forced, f"job {job_id} had to be stopped by force")
        await views.require_agreement(stage, job_id)
        await views.require_outcomes(stage, job_id, ["CANCELLED"])
        phases = stage.ledger.phases_of(job_id)
        require(phases == [STARTED, "cancelled"], f"the handler of a cancelled job wrote {phases}")
        seen.append(await _seconds(stage, job_id, "cancel_seen_time"))
    stage.notes["cancel_seen_seconds"] = max(seen)
    require(max(seen) <= SLACK * SEEN_SECONDS_MAX, f"a cancel was seen after {max(seen):.2f} s")
    new = await stage.control.create(stage.work())
    await stage.control.until_ended(new.job_id)
    require(a.alive, "the executor has ended")


async def ignoring_handler_is_ended(stage: Stage) -> None:
    """A handler that ignores a cancel is killed after the grace period, and its place is free again."""
    await _require_forced(stage, work="sleeping", ignore_cancel=True)


async def deaf_handler_is_ended(stage: Stage) -> None:
    """So is one that holds the interpreter lock and can't even hear of it."""
    await _require_forced(stage, work="blocking")


async def silent_executor_is_not_waited_for(stage: Stage) -> None:
    """An executor that has seen a cancel and says no more is not waited for beyond the grace period."""
    async with stage.scripted("a") as a:
        await a.hello(credits=1)
        job = await stage.control.create()
        lease = await a.lease()
        async with a.beating(lease):
            await stage.control.cancel(job.job_id)
            await a.until(lambda: ref(lease) in a.cancels)
            await a.send(cancels_seen=[ref(lease)])
            await stage.control.until_ended(job.job_id)
            await _require_forced_end(stage, job.job_id, at_least=GRACE_SECONDS)
            (answer,) = await a.report(success(lease))
        told = pb_execution.ReportOutcome.Name(answer.outcome)
        require(told == "REPORT_OUTCOME_LEASE_LOST", f"a result after the end was answered with {told}")
    job = await views.require_agreement(stage, job.job_id)
    require(job.cancellation.HasField("seen_time"), "what the executor said that it saw is not recorded")


async def _require_forced(stage: Stage, **order: object) -> None:
    a = await stage.executors.start("a", queues__drill__at_once=1)
    handlers = a.handler_process_ids()
    job_id = await _started(stage, duration_seconds=_LONG_SECONDS, **order)
    await stage.control.cancel(job_id)
    await stage.control.until_ended(job_id)
    await _require_forced_end(stage, job_id, at_least=_KEEPER_SHARE * GRACE_SECONDS)
    await views.require_agreement(stage, job_id)
    await stage.until(
        lambda: not set(handlers) & set(a.handler_process_ids()),
        seconds=SLACK * GRACE_SECONDS,
        what="the handler's process to be killed",
    )
    new = await stage.control.create(stage.work())
    ended = await stage.control.until_ended(new.job_id)
    require(ended.attempt == 1, f"the next job needed {ended.attempt} attempts")
    phases = stage.ledger.phases_of(job_id)
    require(FINISHED not in phases, f"the handler went on to its end: {phases}")
    require(a.alive and a.lives == 1, "the executor itself has ended")


async def _require_forced_end(stage: Stage, job_id: str, *, at_least: float) -> None:
    """Require that a job was ended by force, not before the grace period was over and not long after."""
    job = await stage.control.get(job_id)
    state = views.word(job_pb2.JobState, job.state)
    require(state == "CANCELLED", f"a job whose cancel was ignored is {state}")
    require(job.cancellation.forced, "a job whose cancel was ignored is not marked as forced")
    await views.require_outcomes(stage, job_id, ["CANCELLED"])
    took = await _seconds(stage, job_id, "finish_time")
    stage.notes["forced_after_seconds"] = took
    most = SLACK * (GRACE_SECONDS + _REAPER_SECONDS)
    require(at_least <= took <= most, f"it was ended {took:.1f} s after the request")


async def _started(stage: Stage, **order: object) -> str:
    """Create a job, and wait until its handler runs."""
    job = await stage.control.create(stage.work(**order))
    await stage.until_begun(job.job_id)
    return job.job_id


async def _seconds(stage: Stage, job_id: str, until: str) -> float:
    """From the request of a cancel to a time in the job's row, by the database's clock."""
    row = await views.row(stage, job_id)
    require(row[until] is not None, f"{until} of job {job_id} is not set")
    begin, end = (datetime.fromisoformat(row[each]) for each in ("cancel_request_time", until))
    return (end - begin).total_seconds()


async def _require_refused(stage: Stage, job_id: str, reason: str) -> None:
    try:
        await stage.control.cancel(job_id)
    except Refused as refused:
        require(refused.reason == reason, f"a cancel was refused with {refused.reason}, not {reason}")
    else:
        require(False, f"a cancel of a job that has ended was acknowledged, not refused with {reason}")


CASE = Case(
    4,
    "cancel",
    (
        queued_never_starts,
        between_attempts_ends_at_once,
        running_is_told_within_a_second,
        ignoring_handler_is_ended,
        deaf_handler_is_ended,
        silent_executor_is_not_waited_for,
        cancel_races.results_as_they_are_reported,
        cancel_races.handlers_as_they_finish,
        cancel_outages.of_the_worker,
        cancel_outages.of_the_api,
        cancel_outages.of_everything,
    ),
)
