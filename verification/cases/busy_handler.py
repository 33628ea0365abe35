"""Case 2: a handler that lets nobody else work keeps its lease."""

from __future__ import annotations

from verification.cases import views
from verification.cases.case import Case
from verification.evidence.ledger import FINISHED, STARTED
from verification.stage.stage import LEASE_SECONDS, Stage
from verification.unmet import require

_COMPUTING_LEASES = 6
_HOLDING_LEASES = 3


async def computes(stage: Stage) -> None:
    """A handler that computes without pause for six lease times starts once and loses nothing."""
    await _run_once(stage, work="busy", seconds=_COMPUTING_LEASES * LEASE_SECONDS)


async def holds_the_interpreter(stage: Stage) -> None:
    """A handler that holds the interpreter lock for three lease times starts once and loses nothing."""
    await _run_once(stage, work="blocking", seconds=_HOLDING_LEASES * LEASE_SECONDS)


async def _run_once(stage: Stage, *, work: str, seconds: float) -> None:
    await stage.executors.start("a")
    job = await stage.control.create(stage.work(work=work, duration_seconds=seconds))
    ended = await stage.control.until_ended(job.job_id, seconds=seconds + 30)
    phases = stage.ledger.phases_of(job.job_id)
    require(phases == [STARTED, FINISHED], f"the handler wrote {phases}")
    require(ended.attempt == 1, f"the job ended with attempt {ended.attempt}")
    await views.require_outcomes(stage, job.job_id, ["SUCCEEDED"])


CASE = Case(2, "busy handler", (computes, holds_the_interpreter))
