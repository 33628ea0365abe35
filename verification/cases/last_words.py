"""Case 13: what was said just before a crash or in an outage holds, and is told to those who wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from shared.gen.baton.v1 import job_pb2
from verification.cases import views
from verification.cases.case import Case
from verification.peers.executor import heartbeat, success
from verification.stage.redis_contents import REDIS_AWAY, RedisContents
from verification.stage.stage import Stage
from verification.unmet import Unmet, require

_CRASHES = 6
"""Each start after a crash waits longer than the one before."""
_JOBS_PER_CRASH = 8
_TOLD_JOBS = 4
_AWAY_SECONDS = 3.0
"""Long enough for every service to notice that Redis is away, several times."""
_BACK_SECONDS = 30.0
_ANSWER_SECONDS = 5.0
_POLL_SECONDS = 0.1
_UNTOLD = """
select count(*) from outbox where aggregate_id = any($1::uuid[]) and state = 'pending'
"""


async def answers_outlive_the_database(stage: Stage) -> None:
    """What was acknowledged in the moment before Postgres is killed is there when it is back."""
    crashes = stage.scaled(_CRASHES, at_least=3)
    for _ in range(crashes):
        jobs = await asyncio.gather(*(stage.control.create(stage.work()) for _ in range(_JOBS_PER_CRASH)))
        cancelled = [each.job_id for each in jobs[::2]]
        await asyncio.gather(*map(stage.control.cancel, cancelled))
        await stage.kill_and_restart("postgres")
        for job_id in cancelled:
            state = views.word(job_pb2.JobState, (await stage.control.get(job_id)).state)
            require(state == "CANCELLED", f"a job whose cancel was acknowledged is {state} after a crash")
    stage.notes["crashes"] = crashes


async def others_are_told_after_an_outage(stage: Stage) -> None:
    """Of jobs that end while Redis is away other services are told once it is back."""
    async with stage.scripted("a") as a:
        await a.hello(credits=_TOLD_JOBS)
        jobs = [(await stage.control.create()).job_id for _ in range(_TOLD_JOBS)]
        leases = await a.leases_when(_TOLD_JOBS)
        await a.beat(*map(heartbeat, leases))
        with stage.held_down("valkey"):
            await a.report(*map(success, leases))
            await asyncio.sleep(_AWAY_SECONDS)
    await stage.until_value(
        _UNTOLD, jobs, holds=lambda count: count == 0, seconds=_BACK_SECONDS, what="the outbox to be told"
    )
    told = await _told(stage)
    untold = [each for each in jobs if f"job.succeeded:{each}:1" not in told]
    require(
        not untold, f"the ends of {len(untold)} of {len(jobs)} jobs count as told, and nobody can read them"
    )


async def _told(stage: Stage) -> Sequence[str]:
    """What others can read, once Redis answers again."""
    contents = RedisContents(stage.stack.redis_url, timeout_seconds=_ANSWER_SECONDS)
    deadline = stage.history.now() + _BACK_SECONDS
    while stage.history.now() < deadline:
        with suppress(*REDIS_AWAY):
            return await contents.told()
        await asyncio.sleep(_POLL_SECONDS)
    raise Unmet(f"Redis did not answer within {_BACK_SECONDS:.0f} s of its return")


CASE = Case(13, "last words", (answers_outlive_the_database, others_are_told_after_an_outage))
