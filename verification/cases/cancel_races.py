"""Case 4, in races: a cancel and a result of one job agree on which of them came first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.cases import views
from verification.peers.control import Refused
from verification.peers.executor import ScriptedExecutor, ref, success
from verification.stage.stage import Stage
from verification.unmet import Unmet, require

_REPORTED_RACES = 400
_FINISHED_RACES = 200
_AT_ONCE = 8
_LEAD_SECONDS = 0.03
"""A cancel is sent so much before or after a result, at most; both take some milliseconds."""
_CLEAR_SECONDS = 0.5
"""A lead that decides the race."""
_JOB_SECONDS = 0.3
_ENDED_OTHERWISE = "JOB_NOT_CANCELLABLE"


@dataclass(frozen=True, slots=True)
class _Race:
    """One job, and whether its cancel was acknowledged; else it was refused as the job had ended."""

    job_id: str
    acknowledged: bool


async def results_as_they_are_reported(stage: Stage) -> None:
    """A cancel and a result that meet at the services agree: either the one counts, or the other."""
    count = stage.scaled(_REPORTED_RACES, at_least=30)
    leads = [-_CLEAR_SECONDS, _CLEAR_SECONDS]
    leads += [stage.random.uniform(-_LEAD_SECONDS, _LEAD_SECONDS) for _ in range(count - 2)]
    async with stage.scripted("a") as a:
        await a.hello(credits=count)
        races = await _at_once(_race_with_report(stage, a, each) for each in leads)
    await _require_one_answer(stage, races)


async def handlers_as_they_finish(stage: Stage) -> None:
    """A job that is cancelled around its handler's end is what the answer to the cancel says."""
    count = stage.scaled(_FINISHED_RACES, at_least=20)
    leads = [-_CLEAR_SECONDS, 2 * _CLEAR_SECONDS]
    leads += [stage.random.uniform(-_JOB_SECONDS, _JOB_SECONDS) for _ in range(count - 2)]
    await stage.executors.start("a", queues__drill__at_once=_AT_ONCE)
    races = await _at_once(_race_with_handler(stage, each) for each in leads)
    await _require_one_answer(stage, races)


async def _race_with_report(stage: Stage, executor: ScriptedExecutor, lead: float) -> _Race:
    """Cancel a job and report its result, the cancel `lead` seconds later, or the result if negative."""
    job = await stage.control.create()
    await executor.until(lambda: any(each.job_id == job.job_id for each in executor.leases))
    lease = next(each for each in executor.leases if each.job_id == job.job_id)
    acknowledged, answer = await asyncio.gather(
        _cancelled(stage, job.job_id, after=lead), _reported(executor, lease, after=-lead)
    )
    expected = pb.REPORT_OUTCOME_CANCELLED_INSTEAD if acknowledged else pb.REPORT_OUTCOME_ACCEPTED
    told = pb.ReportOutcome.Name(answer)
    require(answer == expected, f"the cancel was acknowledged: {acknowledged}, and the result {told}")
    return _Race(job.job_id, acknowledged)


async def _race_with_handler(stage: Stage, lead: float) -> _Race:
    """Cancel a job `lead` seconds after its handler should finish; before, if negative."""
    job = await stage.control.create(stage.work(duration_seconds=_JOB_SECONDS))
    await stage.until_begun(job.job_id)
    acknowledged = await _cancelled(stage, job.job_id, after=_JOB_SECONDS + lead)
    await stage.control.until_ended(job.job_id)
    return _Race(job.job_id, acknowledged)


async def _cancelled(stage: Stage, job_id: str, *, after: float) -> bool:
    await asyncio.sleep(max(0.0, after))
    try:
        await stage.control.cancel(job_id)
    except Refused as refused:
        if refused.reason != _ENDED_OTHERWISE:
            raise Unmet(f"a cancel was refused with {refused.reason}") from None
        return False
    return True


async def _reported(
    executor: ScriptedExecutor, lease: pb.Lease, *, after: float
) -> pb.ReportOutcome.ValueType:
    await asyncio.sleep(max(0.0, after))
    await executor.send(reports=[success(lease)])
    await executor.until(lambda: any(each.lease == ref(lease) for each in executor.answers))
    return next(each.outcome for each in executor.answers if each.lease == ref(lease))


async def _at_once(races: Iterable[Awaitable[_Race]]) -> Sequence[_Race]:
    """Run some at a time, each job by itself."""
    lanes = asyncio.Semaphore(_AT_ONCE)

    async def run(race: Awaitable[_Race]) -> _Race:
        async with lanes:
            return await race

    return await asyncio.gather(*map(run, races))


async def _require_one_answer(stage: Stage, races: Sequence[_Race]) -> None:
    """Require that each job is what the answer to its cancel says, and that either has happened."""
    listing = await views.listed(stage)
    for race in races:
        job = await views.require_agreement(stage, race.job_id, listing=listing)
        state = views.word(job_pb2.JobState, job.state)
        expected = "CANCELLED" if race.acknowledged else "SUCCEEDED"
        require(
            state == expected,
            f"job {race.job_id} is {state}, and its cancel was acknowledged: {race.acknowledged}",
        )
    acknowledged = sum(each.acknowledged for each in races)
    stage.notes["cancels_that_came_first"] = f"{acknowledged} of {len(races)}"
    require(0 < acknowledged < len(races), f"{acknowledged} of {len(races)} cancels came first: no race")
