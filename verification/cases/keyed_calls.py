"""Creations with a key, as case 5 makes them: spelt in many ways, held up, and counted in the database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any
from uuid import uuid4

from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.evidence.tables import OF_RUN
from verification.peers.control import Control, Refused
from verification.stage.holds import Hold, held
from verification.stage.stage import Stage
from verification.unmet import Unmet, require

WAIT_SECONDS = 30.0
"""For what a second is long for."""

_JOBS_OF_RUN = f"select count(*) from jobs where {OF_RUN}"
_JOBS_OF_KEY = """
select coalesce(array_agg(j.job_id::text), '{}') from idempotency_keys k join jobs j using (job_id)
where k.key = $1 and k.owner = $2
"""
_DISPATCHES = """
select count(*) from outbox where aggregate_id = cast($1::text as uuid) and event_type = 'job.dispatch'
"""
_KEYS_WITHOUT_JOB = """
select count(*) from idempotency_keys k where not exists (select from jobs j where j.job_id = k.job_id)
"""
_BIND = """
insert into idempotency_keys (owner, job_type, key, fingerprint, job_id, expire_time)
select owner, 'synthetic', key, ''::bytea, gen_random_uuid(), clock_timestamp() + interval '1 hour'
from unnest($1::text[]) owner, unnest($2::text[]) key
"""


def new_key() -> str:
    return f"key-{uuid4().hex}"


def spelt(stage: Stage, key: str, work: Mapping[str, Any], **fields: Any) -> pb.CreateJobRequest:
    """Make a request whose input has its keys in any order, and white space anywhere."""
    text = _spelling(work, stage.random)
    return stage.control.creation(idempotency_key=key, input=text.encode(), **fields)


def held_up(stage: Stage, *keys: str, owners: Sequence[str] = ()) -> AbstractAsyncContextManager[Hold]:
    """Let no creation with these keys commit while the block runs."""
    return held(stage, _BIND, list(owners or [stage.owner]), list(keys))


async def answers_of(calls: Sequence[tuple[Control, pb.CreateJobRequest]]) -> list[Any]:
    """Call all at once, and return for each its answer, or how it was refused."""
    return await asyncio.gather(*(_answer(caller, request) for caller, request in calls))


async def refused(call: Awaitable[Any]) -> Refused:
    """Wait for a call that must be refused."""
    try:
        answer = await call
    except Refused as refusal:
        return refusal
    raise Unmet(f"a call that had to be refused was answered with {answer}")


async def require_conflict(caller: Control, request: pb.CreateJobRequest, job_id: str) -> None:
    """Require that a call is refused because its key belongs to this job."""
    require_named(await refused(caller.insist("CreateJob", request)), job_id)


def require_named(refusal: Refused, job_id: str) -> None:
    """Require that a refusal says that the key was used, and for which job."""
    require(
        (refusal.status, refusal.reason) == ("ALREADY_EXISTS", "IDEMPOTENCY_KEY_REUSED"),
        f"another body was refused with: {refusal}",
    )
    named = refusal.metadata.get("job_id")
    require(named == job_id, f"the conflict names job {named}, and the key belongs to {job_id}")


async def require_one_new_job(
    stage: Stage, key: str, answers: Sequence[pb.CreateJobResponse | Refused], *, owner: str = ""
) -> str:
    """Require that answers to racing calls show one job, which one of them made and waits; return its id."""
    refusals = [each for each in answers if isinstance(each, Refused)]
    require(not refusals, f"{len(refusals)} of {len(answers)} calls were refused: {refusals[:1]}")
    created = [each for each in answers if not isinstance(each, Refused)]
    job_ids = {each.job.job_id for each in created}
    require(len(job_ids) == 1, f"one key and body made {len(job_ids)} jobs")
    made = sum(not each.replayed for each in created)
    require(made == 1, f"{made} of {len(answers)} answers say that they made the job")
    (job_id,) = job_ids
    await require_stored_once(stage, key, job_id, owner=owner)
    dispatches = await stage.value(_DISPATCHES, job_id)
    require(dispatches == 1, f"job {job_id} has {dispatches} dispatches in the outbox")
    return job_id


async def require_stored_once(stage: Stage, key: str, job_id: str, *, owner: str = "") -> None:
    """Require that the database has this job for the key, and no other."""
    stored = await stage.value(_JOBS_OF_KEY, key, owner or stage.owner)
    require(stored == [job_id], f"the answers show job {job_id}, and the key stands for {stored}")


async def jobs_of(stage: Stage, key: str) -> Sequence[str]:
    """The jobs that the key of the stage's owner stands for: one, or none before it is committed."""
    found: Sequence[str] = await stage.value(_JOBS_OF_KEY, key, stage.owner)
    return found


async def require_whole(stage: Stage, *, jobs: int) -> None:
    """Require that the run has made so many jobs, and that no key stands without its job."""
    made = await stage.value(_JOBS_OF_RUN, stage.run)
    require(made == jobs, f"the run made {made} jobs in place of {jobs}")
    lone = await stage.value(_KEYS_WITHOUT_JOB)
    require(lone == 0, f"{lone} keys stand without a job")


async def _answer(caller: Control, request: pb.CreateJobRequest) -> Any:
    try:
        return await caller.insist("CreateJob", request)
    except Refused as refusal:
        return refusal


def _spelling(work: Mapping[str, Any], chance: Random) -> str:
    def gap() -> str:
        return chance.choice(["", " ", "\n", "\t  "])

    members = [f"{json.dumps(name)}{gap()}:{gap()}{json.dumps(value)}" for name, value in work.items()]
    chance.shuffle(members)
    return f"{gap()}{{{gap()}{f'{gap()},{gap()}'.join(members)}{gap()}}}{gap()}"
