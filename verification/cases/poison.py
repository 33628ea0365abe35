"""Case 6: a job that takes down whatever runs it is given up, and nobody else pays for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shared.gen.baton.v1 import job_pb2
from verification.cases import views
from verification.cases.case import Case
from verification.evidence.ledger import STARTED
from verification.stage.executors import Executor
from verification.stage.stage import Stage
from verification.unmet import require

_HEALTHY = 50
_HEALTHY_MIN = 20
_HEALTHY_SECONDS = 0.2
_LOSSES = 3
_ENDED_SECONDS = 90.0
_EVERY_ATTEMPT = list(range(1, 101))
_RUNS_SECONDS = 0.5
"""A job that starts with the poison again has ended by then, so that none shares its executor three times."""

_HOLDER = "select executor_name from leases where job_id = $1 and attempt = $2"


async def ends_its_process(stage: Stage) -> None:
    """A handler that ends its process, four jobs in each, is lost three times alone; others lose nothing."""
    await _ends_handlers(stage, at_once=4)


async def ends_a_full_process(stage: Stage) -> None:
    """A handler that ends the process which all healthy jobs are in is lost three times alone as well."""
    await _ends_handlers(stage, at_once=64)


async def ends_its_executor(stage: Stage) -> None:
    """A job whose executor is killed whenever it runs is lost three times; others all succeed."""
    executors = await stage.executors.start_all("a", "b", kept_alive=True, queues__drill__at_once=2)
    poison = await stage.control.create(stage.work(duration_seconds=600))
    healthy = await _create_healthy(stage)
    for loss in range(1, _LOSSES + 1):
        await _kill_who_runs(stage, poison, executors, loss)
    await _require_given_up(stage, poison)
    await views.require_outcomes(stage, poison.job_id, ["LOST"] * _LOSSES)
    incarnations = {each.incarnation_id for each in await stage.control.attempts(poison.job_id)}
    require(
        len(incarnations) == _LOSSES, f"{_LOSSES} lives of executors ran it, by {len(incarnations)} names"
    )
    for each in healthy:
        ended = await stage.control.until_ended(each.job_id, seconds=_ENDED_SECONDS)
        require(_fared_well(ended), f"a healthy job ended as {views.described(ended)}")


async def _ends_handlers(stage: Stage, *, at_once: int) -> None:
    executors = await stage.executors.start_all("a", "b", kept_alive=True, queues__drill__at_once=at_once)
    begin = stage.history.now()
    poison = await stage.control.create(stage.work(exit_attempts=_EVERY_ATTEMPT))
    healthy = await _create_healthy(stage)
    await _require_given_up(stage, poison)
    stage.notes["seconds until the poison was given up"] = round(stage.history.now() - begin, 1)
    outcomes = await views.outcomes(stage, poison.job_id)
    require(outcomes.count("LOST") == _LOSSES, f"its attempts ended as {outcomes}")
    require(set(outcomes) <= {"LOST", "GIVEN_BACK"}, f"its attempts ended as {outcomes}")
    for each in healthy:
        ended = await stage.control.until_ended(each.job_id, seconds=_ENDED_SECONDS)
        require(
            _fared_well(ended) and ended.loss_count == 0, f"a healthy job ended as {views.described(ended)}"
        )
        own = await views.outcomes(stage, each.job_id)
        require(set(own) <= {"SUCCEEDED", "GIVEN_BACK"}, f"the attempts of a healthy job ended as {own}")
    stage.notes["seconds until all had ended"] = round(stage.history.now() - begin, 1)
    lives = [each.lives for each in executors]
    require(lives == [1, 1], f"executors, which no handler's death may end, were started {lives} times")


async def _create_healthy(stage: Stage) -> Sequence[job_pb2.Job]:
    count = stage.scaled(_HEALTHY, at_least=_HEALTHY_MIN)
    work = stage.work(duration_seconds=_HEALTHY_SECONDS)
    return await asyncio.gather(*(stage.control.create(work) for _ in range(count)))


async def _kill_who_runs(stage: Stage, job: job_pb2.Job, executors: Sequence[Executor], attempt: int) -> None:
    """Wait until this attempt's handler runs, and kill the executor that it is in."""

    def runs() -> bool:
        return any((each.attempt, each.phase) == (attempt, STARTED) for each in stage.ledger.of(job.job_id))

    await stage.until(runs, seconds=_ENDED_SECONDS, what=f"attempt {attempt} of the poison to start")
    await asyncio.sleep(_RUNS_SECONDS)
    holder = await stage.value(_HOLDER, job.job_id, attempt)
    named = [each for each in executors if each.name == holder]
    require(named, f"attempt {attempt} started, and its lease is held by {holder}")
    named[0].kill()


async def _require_given_up(stage: Stage, poison: job_pb2.Job) -> None:
    ended = await stage.control.until_ended(poison.job_id, seconds=_ENDED_SECONDS)
    require(ended.state == job_pb2.JOB_STATE_FAILED, f"the poison ended as {views.described(ended)}")
    require(ended.error.code == "EXECUTOR_LOST", f"the poison failed as {ended.error.code}")
    counted = ended.loss_count, ended.failure_count
    require(counted == (_LOSSES, 0), f"losses and failures were counted as {counted}")


def _fared_well(job: job_pb2.Job) -> bool:
    return job.state == job_pb2.JOB_STATE_SUCCEEDED and job.failure_count == 0


CASE = Case(6, "poison", (ends_its_process, ends_a_full_process, ends_its_executor))
