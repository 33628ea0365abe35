"""Case 5: one key stands for one job, whoever races, dies or comes back in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.cases import idempotency_kills, keyed_calls, strangers
from verification.cases.case import Case
from verification.cases.keyed_calls import new_key, spelt
from verification.peers.control import Control, Refused
from verification.stage import tokens
from verification.stage.spare_services import spare_api
from verification.stage.stage import Stage
from verification.unmet import require

_AT_ONCE = 50
_ROUNDS = 20
_REPLICAS = 2


async def races(stage: Stage) -> None:
    """Fifty calls at once to two replicas with one key, however their inputs are spelt, make one job."""
    rounds = stage.scaled(_ROUNDS, at_least=2)
    async with spare_api(stage) as spare, stage.calling(spare.address) as other:
        for _ in range(rounds):
            key, work = new_key(), stage.work(items=3, fail_attempts=[7, 8], report_progress=False)
            answers = await _race(stage, [stage.control, other], key, [work])
            await keyed_calls.require_one_new_job(stage, key, answers)
    await keyed_calls.require_whole(stage, jobs=rounds)


async def contradictions(stage: Stage) -> None:
    """Of two bodies that race for one key one wins; the other is refused, and told which job has the key."""
    rounds = stage.scaled(_ROUNDS, at_least=2)
    async with spare_api(stage) as spare, stage.calling(spare.address) as other:
        for _ in range(rounds):
            key, bodies = new_key(), [stage.work(items=1), stage.work(items=2)]
            # The bodies change every two calls, so that either replica gets both.
            answers = await _race(stage, [stage.control, other], key, [bodies[0], *bodies, bodies[1]])
            refused = [each for each in answers if isinstance(each, Refused)]
            created = [each for each in answers if not isinstance(each, Refused)]
            job_id = await keyed_calls.require_one_new_job(stage, key, created)
            for each in refused:
                keyed_calls.require_named(each, job_id)
            require(
                abs(len(refused) - len(created)) <= len(bodies),
                f"{len(created)} calls of {_AT_ONCE} with two bodies were accepted",
            )
    await keyed_calls.require_whole(stage, jobs=rounds)


async def outlasts_ends_and_restarts(stage: Stage) -> None:
    """The answer stays the same after the job's end, and after a restart of api, Postgres and Valkey."""
    works = {
        job_pb2.JOB_STATE_SUCCEEDED: stage.work(items=2),
        job_pb2.JOB_STATE_FAILED: stage.work(fail_attempts=[1], fail_code="INPUT_UNREADABLE"),
        job_pb2.JOB_STATE_CANCELLED: stage.work(items=5),
    }
    keys = {state: new_key() for state in works}
    jobs = {state: await stage.control.create(works[state], idempotency_key=keys[state]) for state in works}
    for state, job in jobs.items():
        await _require_standing(stage, keys[state], works[state], job.job_id)
    await stage.control.cancel(jobs[job_pb2.JOB_STATE_CANCELLED].job_id)
    await stage.executors.start("a")
    for state, job in jobs.items():
        ended = await stage.control.until_ended(job.job_id)
        require(ended.state == state, f"job {job.job_id} ended as {job_pb2.JobState.Name(ended.state)}")
    for process in (None, "api", "postgres", "valkey"):
        if process is not None:
            await stage.kill_and_restart(process)
        for state, job in jobs.items():
            now = await _require_standing(stage, keys[state], works[state], job.job_id)
            require(now.state == state, f"a replay shows the job as {job_pb2.JobState.Name(now.state)}")
    await keyed_calls.require_whole(stage, jobs=len(jobs))


async def other_owners(stage: Stage) -> None:
    """Another owner's key is another key; who acts for an owner uses that owner's."""
    key, work = new_key(), stage.work(items=2)
    owners = [f"{name}-{uuid4().hex[:8]}" for name in ("ann", "bea")]
    async with AsyncExitStack() as opened:
        callers = [
            await opened.enter_async_context(stage.calling(subject=each, scopes=(tokens.READ, tokens.WRITE)))
            for each in owners
        ]
        answers = await _race(stage, callers, key, [work], owners=owners)
        jobs = [
            await keyed_calls.require_one_new_job(stage, key, answers[place :: len(owners)], owner=owner)
            for place, owner in enumerate(owners)
        ]
        require(jobs[0] != jobs[1], "two owners' keys stand for one job")
        for caller, own, foreign in zip(callers, jobs, reversed(jobs), strict=True):
            await keyed_calls.require_conflict(caller, spelt(stage, key, stage.work(items=9)), own)
            unseen = await keyed_calls.refused(caller.insist("GetJob", pb.GetJobRequest(job_id=foreign)))
            require(unseen.reason == "JOB_NOT_FOUND", f"asking for another owner's job: {unseen}")
    for owner, job_id in zip(owners, jobs, strict=True):
        acting = await stage.control.insist("CreateJob", spelt(stage, key, work, owner=owner))
        require(
            acting.replayed and acting.job.job_id == job_id,
            f"who acts for an owner of job {job_id} got job {acting.job.job_id}",
        )
    third = await stage.control.insist("CreateJob", spelt(stage, key, work))
    require(not third.replayed, f"a third owner got job {third.job.job_id} of another")
    await keyed_calls.require_whole(stage, jobs=len(owners) + 1)


async def _race(
    stage: Stage,
    callers: Sequence[Control],
    key: str,
    bodies: Sequence[Mapping[str, Any]],
    *,
    owners: Sequence[str] = (),
) -> list[Any]:
    """Call fifty times at once, by turns as these callers and with these bodies.

    None is answered before a transaction of each replica waits for the key, so that they do race.

    Returns:
        Answers and refusals in the order of the calls.
    """
    calls = [
        (callers[place % len(callers)], spelt(stage, key, bodies[place % len(bodies)]))
        for place in range(_AT_ONCE)
    ]
    async with keyed_calls.held_up(stage, key, owners=owners) as hold:
        answers = stage.beside(keyed_calls.answers_of(calls))
        await hold.until_waited_for(1 if owners else _REPLICAS)
    return await answers


async def _require_standing(stage: Stage, key: str, work: Mapping[str, Any], job_id: str) -> job_pb2.Job:
    """Require that the key stands for this job, whatever else is asked with it; return the job."""
    replay = await stage.control.insist("CreateJob", spelt(stage, key, work))
    require(replay.replayed, f"a repeated call made job {replay.job.job_id}")
    require(replay.job.job_id == job_id, f"a repeated call shows job {replay.job.job_id} for {job_id}")
    others = (
        spelt(stage, key, {**work, "items": 77}),
        spelt(stage, key, work, target=job_pb2.Target(type="document", id="7")),
        spelt(stage, key, work, overrides=pb.JobOverrides(priority=7)),
    )
    for other in others:
        await keyed_calls.require_conflict(stage.control, other, job_id)
    return replay.job  # type: ignore[no-any-return]


CASE = Case(
    5,
    "idempotency",
    (
        races,
        contradictions,
        outlasts_ends_and_restarts,
        idempotency_kills.answers_lost_after_commit,
        idempotency_kills.killed_before_commit,
        idempotency_kills.killed_half_way,
        other_owners,
        strangers.jobs_of_others_do_not_exist,
        strangers.scopes_are_asked_for,
    ),
    settings={"BATON_TOKEN_SECRET": "the suite and its stack share this secret"},
)
