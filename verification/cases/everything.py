"""Case 10: thousands of jobs while every process in turn is killed, the servers too.

Every acknowledged job must SUCCEED, so none may be poison, by accident either. By the rules a job whose
executor was lost three times has FAILED. So work is spread over four executors with few leases each, the fire
takes them in turn, and it spares executors while a job that runs has lost two. A killed handler process or
service is no loss. Jobs that are ordered to fail do so once, and have three tries.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Coroutine, Mapping
from typing import Any

from verification.cases.backlog import a_long_backlog
from verification.cases.case import Case
from verification.cases.everything_load import Load
from verification.evidence.tables import OF_RUN
from verification.stage.database import AWAY
from verification.stage.fire import Fire
from verification.stage.stage import OPEN, Stage
from verification.unmet import require

SECONDS = 300.0
"""Of fire, at full scale."""
JOBS_PER_SECOND = 68.5
"""20,000 jobs in the full time, and those that are cancelled."""
KILLS_PER_SECOND = 60 / SECONDS
SETTLE_SECONDS = 240.0
"""For a backlog that the fire has left."""

_EXECUTORS = ("a", "b", "c", "d")
_AT_ONCE = 8
_TELL_SECONDS = 10.0

_OUTCOMES = f"""
select jsonb_object_agg(outcome, number) from (
    select outcome, count(*) as number from attempts join jobs using (job_id)
    where {OF_RUN} group by outcome) counted
"""

_COUNTS = f"""
select jsonb_object_agg(state, number) from (
    select state, count(*) as number from jobs
    where {OF_RUN} group by state) counted
"""


async def everything(stage: Stage) -> None:
    """Every job of thousands succeeds once while everything is killed, again and again."""
    seconds = stage.lasting(SECONDS)
    load = Load(stage, jobs=round(seconds * JOBS_PER_SECOND), seconds=seconds)
    executors = await stage.executors.start_all(*_EXECUTORS, kept_alive=True, queues__drill__at_once=_AT_ONCE)
    fire = Fire(stage, executors)
    over = asyncio.Event()
    telling = asyncio.create_task(_tell(stage, load, fire, over))
    try:
        await _together(fire.burn(seconds), load.run())
        stage.notes["seconds of fire"] = round(stage.history.now())
        await stage.settle(seconds=SETTLE_SECONDS)
    finally:
        over.set()  # a cancel alone may be taken for the database being away
        telling.cancel()
        stage.notes |= {"jobs": load.created, "kills": fire.kills, "done": dict(fire.done)}
    stage.notes["attempts"] = await _counts(stage, _OUTCOMES)
    await _require_all(stage, load, fire, seconds)


async def _require_all(stage: Stage, load: Load, fire: Fire, seconds: float) -> None:
    counts = await _counts(stage)
    jobs, asked = load.created, len(load.asked_to_cancel)
    require(sum(counts.values()) == jobs, f"{jobs} jobs were acknowledged, and there are {counts}")
    require(set(counts) <= {"SUCCEEDED", "CANCELLED"}, f"the jobs have ended as {counts}")
    cancelled = counts.get("CANCELLED", 0)
    require(cancelled <= asked, f"{cancelled} jobs are cancelled, and {asked} were to be")
    wanted = math.floor(seconds * KILLS_PER_SECOND)
    require(fire.kills >= wanted, f"only {fire.kills} processes were killed, not {wanted}")


async def _tell(stage: Stage, load: Load, fire: Fire, over: asyncio.Event) -> None:
    """Tell every ten seconds how far it is."""
    while not over.is_set():
        await asyncio.sleep(_TELL_SECONDS)
        try:
            counts = await _counts(stage)
        except AWAY:
            ended = "unknown while the database is away"
        else:
            ended = str(sum(number for state, number in counts.items() if state not in OPEN))
        told = f"created {load.created}, ended {ended}, kills {fire.kills}"
        stage.terms.tell(f"{stage.history.now():.0f} s: {told}")


async def _counts(stage: Stage, query: str = _COUNTS) -> Mapping[str, int]:
    """How many jobs are in each state, or what else is counted."""
    return json.loads(await stage.value(query, stage.run) or "{}")  # type: ignore[no-any-return]


async def _together(*work: Coroutine[Any, Any, None]) -> None:
    """Do all of it at once; if one fails, end the others and raise what it raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each)
    except ExceptionGroup as failures:
        first: Exception = failures
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        raise first from None


CASE = Case(10, "everything", (everything, a_long_backlog))
