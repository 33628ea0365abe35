"""Case 11: what a dispatcher's crash or a forgetful Redis does to entries costs no job and no second run."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from verification.cases.case import Case
from verification.evidence.ledger import STARTED
from verification.evidence.samples import Wait
from verification.evidence.tables import OF_RUN
from verification.peers.control import Control
from verification.peers.cuttable import Cuttable, Direction, cuttable
from verification.stage.freezing import frozen
from verification.stage.holds import held
from verification.stage.redis_contents import RedisContents
from verification.stage.spare_services import SpareService, spare_api, spare_worker
from verification.stage.stage import Stage
from verification.unmet import require

_ROUNDS = 100
_JOBS_PER_ROUND = 8
"""As many as a dispatcher puts into a stream for executors that nobody knows of."""
_SECONDS_MAX = 20.0
"""For what takes a moment."""

_KILLS = 30
_SECOND_CLAIM_SECONDS = 0.3
"""For the other service's claim, where it does not wait for the first one's locks."""
_DUE_SECONDS = 1.5
"""Long enough to create jobs and to get hold of the outbox before they are due."""

_UNCLAIMED_SECONDS = 45.0
"""Only after this is a lost entry looked for. It is far longer than what a crash alone may cost."""
_STARTED_SECONDS = 12.0
"""A crash of the dispatcher frees its rows at once."""
_SENT_AGAIN_SECONDS = _UNCLAIMED_SECONDS + 20.0

_ROWS = f"select count(*) from outbox join jobs on job_id = aggregate_id where {OF_RUN}"
_DELIVERED = f"{_ROWS} and event_type = 'job.dispatch' and outbox.state = 'delivered'"
_PENDING = f"{_ROWS} and event_type = 'job.dispatch' and outbox.state = 'pending'"
_UNTOLD = f"{_ROWS} and event_type <> 'job.dispatch' and outbox.state = 'pending'"
_HOLD_JOBS = "select job_id from jobs where job_id = any($1::uuid[]) for update"
_HOLD_OUTBOX = "lock table outbox in share row exclusive mode"
"""Dispatch rows can be read and locked, and nobody can write down that they were delivered."""


async def entries_twice(stage: Stage) -> None:
    """Two services claim the same attempts at the same moment, and each attempt starts once."""
    async with spare_worker(stage) as replica:
        await stage.executors.start("a", queues__drill__at_once=_JOBS_PER_ROUND)
        await stage.executors.start(
            "b", queues__drill__at_once=_JOBS_PER_ROUND, execution_address=replica.address
        )
        for _ in range(stage.scaled(_ROUNDS)):
            await _race(stage, replica)
    starts = [(each.job_id, each.attempt) for each in stage.ledger.entries() if each.phase == STARTED]
    twice = len(starts) - len(set(starts))
    require(twice == 0, f"{twice} attempts were started twice")
    stage.notes["attempts raced for"] = len(starts)


async def _race(stage: Stage, replica: SpareService) -> None:
    async with AsyncExitStack() as holding:
        with frozen(stage.stack.process_id("worker")), frozen(replica.process_id):
            jobs = [await stage.control.create(stage.work()) for _ in range(_JOBS_PER_ROUND)]
            await _until(stage, _DELIVERED, len(jobs))
            await RedisContents(stage.stack.redis_url).append_again()
            rows = [each.job_id for each in jobs]
            hold = await holding.enter_async_context(held(stage, _HOLD_JOBS, rows))
        await hold.until_waited_for()
        await asyncio.sleep(_SECOND_CLAIM_SECONDS)
    await asyncio.gather(*(stage.control.until_ended(each.job_id) for each in jobs))


async def dispatcher_killed(stage: Stage) -> None:
    """A dispatcher that dies between its two ledgers costs a job seconds, not a sweep."""
    kills = stage.scaled(_KILLS, at_least=4)
    with stage.held_down("api"):
        async with (
            cuttable(stage.stack.redis_url) as way,
            spare_api(stage, redis_url=way.url) as api,
            stage.calling(api.address) as caller,
        ):
            await stage.executors.start("a")
            for number in range(kills):
                await _kill_in_the_gap(stage, api, caller, way, before_commit=number % 2 == 0)
    stage.notes["kills of the dispatcher"] = kills


async def _kill_in_the_gap(
    stage: Stage, api: SpareService, caller: Control, way: Cuttable, *, before_commit: bool
) -> None:
    """Kill it while its transaction is held open, or once that has ended; Redis hears no more of it."""
    await _until(stage, _UNTOLD, 0)  # their dispatcher would wait for the outbox too
    due = await stage.due_in(_DUE_SECONDS)
    for _ in range(_JOBS_PER_ROUND):
        await caller.create(stage.work(), run_time=due)
    async with held(stage, _HOLD_OUTBOX) as hold:
        await hold.until_waited_for(by="'delivered'")
        way.swallow(Direction.TO_SERVER)
        if before_commit:
            await api.kill()
    if not before_commit:
        await _until(stage, _PENDING, 0)
        await api.kill()
    way.heal()
    way.reset()
    await api.start()
    await _started(stage, _STARTED_SECONDS, after="a crash of the dispatcher")


async def entries_lost(stage: Stage) -> None:
    """Entries that Redis forgot, while their stream is still there, are sent again."""
    for _ in range(_JOBS_PER_ROUND):
        await stage.control.create(stage.work())
    await _until(stage, _DELIVERED, _JOBS_PER_ROUND)
    lost = await RedisContents(stage.stack.redis_url).forget_entries()
    require(lost >= _JOBS_PER_ROUND, f"there were only {lost} entries to lose")
    await stage.executors.start("a")
    await _started(stage, _SENT_AGAIN_SECONDS, after="a loss of entries")


async def _until(stage: Stage, query: str, count: int) -> None:
    await stage.until_value(
        query, stage.run, holds=lambda found: found == count, seconds=_SECONDS_MAX, what=f"{count} rows"
    )


async def _started(stage: Stage, seconds: float, *, after: str) -> None:
    """Wait until nothing is queued any more, and have the wait judged."""
    begin = stage.history.now()
    try:
        await stage.until_jobs(
            "QUEUED", holds=lambda count: count == 0, seconds=seconds, what="all jobs to start"
        )
    finally:
        stage.samples.waits.append(Wait(after, stage.history.now() - begin, seconds))


CASE = Case(
    11,
    "delivery",
    (entries_twice, dispatcher_killed, entries_lost),
    settings={
        "BATON_LOOPS__UNCLAIMED_SECONDS": str(_UNCLAIMED_SECONDS),
        "BATON_LOOPS__SWEEP_SECONDS": "1",
    },
)
