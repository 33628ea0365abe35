"""Case 11: what a dispatcher's crash or a forgetful Redis does to entries costs no job and no second run."""

from __future__ import annotations

import asyncio

from verification.cases.case import Case
from verification.evidence.ledger import STARTED
from verification.stage import lease_streams
from verification.stage.freezing import frozen
from verification.stage.services import another_worker
from verification.stage.stack import SHORT_TIMES
from verification.stage.stage import Stage
from verification.unmet import Unmet, require

_ROUNDS = 100
_JOBS_PER_ROUND = 8
"""As many as a dispatcher puts into a stream for executors that nobody knows of."""
_CLAIMS_SECONDS = 0.3
"""Long enough for both services to have sent their claims while the rows are held."""

_KILLS = 100
_CALLERS = 4
_UNCLAIMED_SECONDS = 20.0
"""Only after this is a lost entry looked for. It is far longer than what a crash alone may cost."""
_FOUND_SECONDS = 12.0
"""A crash of the dispatcher frees its rows at once: this is for its next start, on a busy machine."""
_SENT_AGAIN_SECONDS = _UNCLAIMED_SECONDS + 20.0

_OF_RUN = "labels @> jsonb_build_object('verify', $1::text)"
_QUEUED = f"select count(*) from jobs where {_OF_RUN} and state = 'QUEUED'"
_DELIVERED = f"""
select count(*) from outbox join jobs on job_id = aggregate_id
where {_OF_RUN} and event_type = 'job.dispatch' and outbox.state = 'delivered'
"""


async def entries_twice(stage: Stage) -> None:
    """Two services claim the same attempts at the same moment, and each attempt starts once."""
    async with another_worker(stage.stack, stage.directory, **SHORT_TIMES) as replica:
        await stage.executors.start("a", queues__drill__at_once=_JOBS_PER_ROUND)
        await stage.executors.start(
            "b", queues__drill__at_once=_JOBS_PER_ROUND, execution_address=replica.address
        )
        for _ in range(stage.scaled(_ROUNDS)):
            await _race(stage, replica.process_id)
    starts = [(each.job_id, each.attempt) for each in stage.ledger.entries() if each.phase == STARTED]
    twice = len(starts) - len(set(starts))
    require(twice == 0, f"invariant 3, fencing: {twice} attempts were started twice")
    stage.notes["attempts raced for"] = len(starts)


async def _race(stage: Stage, second_worker: int) -> None:
    with frozen(stage.stack.process_id("worker")), frozen(second_worker):
        jobs = [await stage.control.create(stage.work()) for _ in range(_JOBS_PER_ROUND)]
        await stage.until_value(
            _DELIVERED, stage.run, holds=lambda count: count == len(jobs), seconds=20, what="entries"
        )
        await lease_streams.append_again(stage.stack.redis_url)
        holding = await stage.holding(
            "select job_id from jobs where job_id = any($1::uuid[]) for update",
            [each.job_id for each in jobs],
        )
    async with holding:
        await asyncio.sleep(_CLAIMS_SECONDS)
    await asyncio.gather(*(stage.control.until_ended(each.job_id) for each in jobs))


async def dispatcher_killed(stage: Stage) -> None:
    """A dispatcher that dies between its two ledgers costs a job seconds, not a sweep."""
    await stage.executors.start_all("a", "b")
    kills = stage.scaled(_KILLS, at_least=8)
    creating = [asyncio.create_task(_keep_creating(stage)) for _ in range(_CALLERS)]
    try:
        for _ in range(kills):
            await asyncio.sleep(stage.random.uniform(0.3, 1.0))
            with frozen(stage.stack.process_id("valkey")):
                await asyncio.sleep(stage.random.uniform(0.0, 0.1))
                life = stage.kill("api")
            await stage.restarted(life)
            await _started_soon(stage)
    finally:
        for each in creating:
            each.cancel()
        await asyncio.wait(creating)
    stage.notes["kills of the dispatcher"] = kills


async def _keep_creating(stage: Stage) -> None:
    while True:
        await stage.control.create(stage.work())


async def _started_soon(stage: Stage) -> None:
    """Require that what waits now does not wait for the sweep."""
    begin = await stage.value("select clock_timestamp()")
    waiting = f"{_QUEUED} and create_time < $2"
    try:
        await stage.until_value(
            waiting, stage.run, begin, holds=lambda count: count == 0, seconds=_FOUND_SECONDS, what="starts"
        )
    except Unmet as unmet:
        raise Unmet(f"invariant 7, no help needed: jobs wait although executors are free: {unmet}") from None


async def entries_lost(stage: Stage) -> None:
    """Entries that Redis forgot, while their stream is still there, are sent again."""
    jobs = [await stage.control.create(stage.work()) for _ in range(_JOBS_PER_ROUND)]
    await stage.until_value(
        _DELIVERED, stage.run, holds=lambda count: count == len(jobs), seconds=20, what="entries"
    )
    lost = await lease_streams.forget_entries(stage.stack.redis_url)
    require(lost > 0, "there was nothing to lose")
    await stage.executors.start("a")
    try:
        await stage.until_value(
            _QUEUED, stage.run, holds=lambda count: count == 0, seconds=_SENT_AGAIN_SECONDS, what="starts"
        )
    except Unmet as unmet:
        raise Unmet(f"invariant 7, no help needed: what Redis lost is not sent again: {unmet}") from None


CASE = Case(
    11,
    "delivery",
    (entries_twice, dispatcher_killed, entries_lost),
    settings={
        "BATON_LOOPS__UNCLAIMED_SECONDS": str(_UNCLAIMED_SECONDS),
        "BATON_LOOPS__SWEEP_SECONDS": "1",
    },
)
