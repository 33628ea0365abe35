"""Kills of an api with creations under way, in gaps that are held open: before their commit, and after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.cases import keyed_calls
from verification.cases.lanes import Lane, lane
from verification.evidence.history import OK
from verification.peers.control import Refused
from verification.peers.cuttable import Direction
from verification.stage.holds import Hold, held
from verification.stage.stage import Stage
from verification.unmet import require

_KILLS_AFTER_COMMIT = 100
_KILLS_BEFORE_COMMIT = 20
_KILLS_HALF_WAY = 10
_LANES = 2
"""Apis that are killed side by side: each start costs a processor a second or two."""
_CALLS_PER_KILL = 3

_COMMITTED = "select count(*) from idempotency_keys join jobs using (job_id) where key = any($1::text[])"
_BOUND = "select count(*) from idempotency_keys where key = any($1::text[])"
_HOLD_JOBS = "lock table jobs in share row exclusive mode"
"""Rows can be read and locked, but neither made nor changed."""


async def answers_lost_after_commit(stage: Stage) -> None:
    """An api that is killed between commit and reply leaves a job that the same call finds again."""
    await _kill_often(stage, stage.scaled(_KILLS_AFTER_COMMIT, at_least=_LANES), _kill_after_commit)


async def killed_before_commit(stage: Stage) -> None:
    """An api that is killed before its commit leaves nothing, and the same call makes one job."""
    await _kill_often(stage, stage.scaled(_KILLS_BEFORE_COMMIT, at_least=_LANES), _kill_before_commit)


async def killed_half_way(stage: Stage) -> None:
    """An api that is killed when it has written the keys, and not yet the jobs, leaves neither."""
    # In one lane: the lock holds up all creations, so it would be unclear which of them wait.
    await _kill_often(stage, stage.scaled(_KILLS_HALF_WAY), _kill_half_way, lanes=1)


async def _kill_often(
    stage: Stage, kills: int, kill: Callable[[Lane], Awaitable[None]], *, lanes: int = _LANES
) -> None:
    async def one_after_the_other(number: int) -> None:
        async with lane(stage, f"api-{number}") as own:
            for _ in range(number, kills, lanes):
                await kill(own)

    await asyncio.gather(*(stage.beside(one_after_the_other(number)) for number in range(lanes)))
    stage.notes["kills"] = kills
    stage.notes["calls"] = kills * _CALLS_PER_KILL
    await keyed_calls.require_whole(stage, jobs=kills * _CALLS_PER_KILL)


async def _kill_after_commit(own: Lane) -> None:
    """Swallow the replies, kill once the database has the jobs, and let the calls be repeated."""
    keys = [keyed_calls.new_key() for _ in range(_CALLS_PER_KILL)]
    await own.connect()
    own.way.swallow(Direction.TO_CLIENT)
    calls = _created(own, keys)
    await own.stage.until_value(
        _COMMITTED,
        keys,
        holds=lambda count: count == len(keys),
        seconds=keyed_calls.WAIT_SECONDS,
        what="the jobs to be committed",
    )
    stored = [(await keyed_calls.jobs_of(own.stage, key))[0] for key in keys]
    await own.api.kill()
    await own.come_back()
    for key, job_id, answer in zip(keys, stored, await calls, strict=True):
        _require_answered_late(own, key, answer)
        require(answer.replayed, f"job {job_id} was committed, and its call made job {answer.job.job_id}")
        require(answer.job.job_id == job_id, f"job {job_id} was committed, and {answer.job.job_id} is shown")
        await keyed_calls.require_stored_once(own.stage, key, job_id)


async def _kill_before_commit(own: Lane) -> None:
    """Hold the keys, kill once the creation waits for them, and let the calls be repeated."""
    keys = [keyed_calls.new_key() for _ in range(_CALLS_PER_KILL)]
    await _kill_held(own, keys, keyed_calls.held_up(own.stage, *keys))


async def _kill_half_way(own: Lane) -> None:
    """Hold up what comes after the keys, kill, and let the calls be repeated."""
    keys = [keyed_calls.new_key() for _ in range(_CALLS_PER_KILL)]
    await _kill_held(own, keys, held(own.stage, _HOLD_JOBS))


async def _kill_held(own: Lane, keys: Sequence[str], holding: AbstractAsyncContextManager[Hold]) -> None:
    await own.connect()
    async with holding as hold:
        calls = _created(own, keys)
        await hold.until_waited_for()
        await own.api.kill()
        bound = await own.stage.value(_BOUND, keys)
        require(bound == 0, f"nothing can be committed, and {bound} keys are bound")
    await own.come_back()
    for key, answer in zip(keys, await calls, strict=True):
        _require_answered_late(own, key, answer)
        await keyed_calls.require_stored_once(own.stage, key, answer.job.job_id)


def _created(own: Lane, keys: Sequence[str]) -> asyncio.Task[list[Any]]:
    work = own.stage.work()
    calls = [(own.caller, keyed_calls.spelt(own.stage, key, work)) for key in keys]
    return own.stage.beside(keyed_calls.answers_of(calls))


def _require_answered_late(own: Lane, key: str, answer: pb.CreateJobResponse | Refused) -> None:
    """Require an answer, but not to the first call with the key, else it proved nothing."""
    require(not isinstance(answer, Refused), f"the call was refused in the end: {answer}")
    calls = [
        each
        for each in own.stage.history.calls
        if each.method == "CreateJob" and each.request.get("idempotencyKey") == key
    ]
    require(calls[0].status != OK, f"the first call with {key} was answered before the kill")
