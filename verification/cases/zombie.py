"""Case 1: an executor that was taken for dead wakes up, and finds its job given to another."""

from __future__ import annotations

from typing import Any

from verification.cases import stale_token
from verification.cases.case import Case
from verification.cases.stale_token import TAKE_OVER_SECONDS, require_won
from verification.evidence.ledger import FINISHED, STARTED
from verification.stage.executors import Executor
from verification.stage.stage import LEASE_SECONDS, Stage
from verification.unmet import require

_ATTEMPT_SECONDS = 2 * LEASE_SECONDS
"""A job's attempt ends while its executor is paused, and lasts while a woken one reports."""


async def late_result_is_refused(stage: Stage) -> None:
    """What a woken executor reports first is refused; the job has the other executor's result."""
    await _wake_while_another_works(stage, ends="finished")


async def late_failure_is_refused(stage: Stage) -> None:
    """A final failure that a woken executor reports first fails nobody's job."""
    order: dict[str, Any] = {"fail_attempts": [1], "fail_after_items": 1, "fail_code": "INPUT_BROKEN"}
    await _wake_while_another_works(stage, ends="failed", **order)


async def twins_are_told_apart(stage: Stage) -> None:
    """An executor of the same name does not vouch for the lease of one that is silent, nor share it."""
    await _wake_while_another_works(stage, ends="finished", name="twin")


async def both_ends_die(stage: Stage) -> None:
    """An executor that dies together with its service leaves nobody to tell of it, and is missed."""
    a = await stage.executors.start("a")
    job = await stage.control.create(stage.work(duration_seconds=_ATTEMPT_SECONDS))
    await stage.until_accepted(job.job_id)
    await stage.until_begun(job.job_id)
    worker = stage.kill("worker")
    a.kill()
    await stage.restarted(worker)
    await stage.executors.start("b")
    await stage.control.until_ended(job.job_id, seconds=TAKE_OVER_SECONDS)
    await require_won(stage, job.job_id)


async def _wake_while_another_works(stage: Stage, *, ends: str, name: str = "", **order: Any) -> None:
    """Pause A, have B run the next attempt, and wake A so that it reports first.

    Args:
        ends: The phase in which A's handler ends.
        name: That both give themselves; their own without one.
    """
    shared: dict[str, Any] = {"executor_name": name} if name else {}
    a = await stage.executors.start("a", queues__drill__at_once=1, **shared)
    job = await stage.control.create(stage.work(duration_seconds=_ATTEMPT_SECONDS, **order))
    await stage.until_accepted(job.job_id)
    await _until_phase(stage, job.job_id, 1, STARTED)
    a.pause()
    b = await stage.executors.start("b", queues__drill__at_once=1, **shared)
    await _until_phase(stage, job.job_id, 2, STARTED)
    a.resume_handlers()
    await _until_phase(stage, job.job_id, 1, ends)
    a.resume()
    await stage.control.until_ended(job.job_id)
    _require_first(stage, job.job_id, (1, ends), (2, FINISHED))
    await require_won(stage, job.job_id)
    await _require_going_on(stage, a, b, job.job_id, name)


async def _require_going_on(stage: Stage, a: Executor, b: Executor, job_id: str, name: str) -> None:
    """Require that A, which was never started again, does a job that nobody else is there for."""
    exit_code = await b.stop()
    require(exit_code == 0, f"executor b exits with {exit_code}")
    first, second = await stage.control.attempts(job_id)
    expected = (name or "a", name or "b")
    names = (first.executor_name, second.executor_name)
    require(names == expected, f"the attempts ran on {names}, not {expected}")
    require(first.incarnation_id != second.incarnation_id, "both attempts ran on one executor")
    new = await stage.control.create(stage.work())
    await stage.control.until_ended(new.job_id)
    (attempt,) = await stage.control.attempts(new.job_id)
    require(attempt.incarnation_id == first.incarnation_id, "somebody else than executor a took the new job")
    require(a.alive and a.lives == 1, f"executor a ended, after {a.lives} lives")


async def _until_phase(stage: Stage, job_id: str, attempt: int, phase: str) -> None:
    await stage.until(
        lambda: (attempt, phase) in _phases(stage, job_id),
        seconds=TAKE_OVER_SECONDS,
        what=f"attempt {attempt} to have {phase}",
    )


def _phases(stage: Stage, job_id: str) -> list[tuple[int, str]]:
    return [(each.attempt, each.phase) for each in stage.ledger.of(job_id)]


def _require_first(stage: Stage, job_id: str, first: tuple[int, str], second: tuple[int, str]) -> None:
    phases = _phases(stage, job_id)
    starts = sorted(attempt for attempt, phase in phases if phase == STARTED)
    require(starts == [1, 2], f"handlers began the attempts {starts}")
    in_order = first in phases and second in phases and phases.index(first) < phases.index(second)
    require(in_order, f"{first} should come before {second}, and the ledger has {phases}")


CASE = Case(
    1,
    "zombie",
    (
        late_result_is_refused,
        late_failure_is_refused,
        twins_are_told_apart,
        both_ends_die,
        stale_token.stores_nothing,
        stale_token.of_ones_own_is_refused,
        stale_token.speaks_for_nobody_else,
    ),
)
