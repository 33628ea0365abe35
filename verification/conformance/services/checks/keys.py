"""What an idempotency key promises."""

from __future__ import annotations

import asyncio
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import refused
from verification.conformance.services.target import NEVER_DUE, Target
from verification.evidence.tables import LABEL
from verification.peers.control import Refused
from verification.unmet import require

_RACING_CALLS = 20


async def the_same_key_and_body_give_the_same_job(target: Target) -> None:
    """A repeated call gives the job of the first, marked as a replay, and writes nothing."""
    request = target.waiting()
    made = (await target.control.call("CreateJob", request)).job
    again = await target.control.call("CreateJob", request)
    require(again.job.job_id == made.job_id, "the same key and body made another job")
    require(again.replayed, "the second call is not marked as a replay")
    require(again.job == made, "the replay shows another job than the first call did")


async def key_order_and_white_space_do_not_count(target: Target) -> None:
    """An input that differs in white space and in the order of its keys is the same body."""
    first = target.waiting(input=b'{"items": 3, "note": "a\\u00e9"}')
    second = target.waiting(
        input='\n{ "note":"a\u00e9",\t"items":3 }'.encode(), idempotency_key=first.idempotency_key
    )
    made = await target.control.call("CreateJob", first)
    again = await target.control.call("CreateJob", second)
    require(again.replayed and again.job.job_id == made.job.job_id, "it is taken for another body")


async def another_body_is_refused_and_names_the_job(target: Target) -> None:
    """A key that was used for other content is IDEMPOTENCY_KEY_REUSED, whatever differs; it names its job."""
    request = target.waiting()
    made = (await target.control.call("CreateJob", request)).job
    changes: list[dict[str, Any]] = [
        {"input": b'{"items": 2}'},
        {"overrides": pb.JobOverrides(priority=1)},
        {"overrides": pb.JobOverrides(credential_id="another")},
        {"overrides": pb.JobOverrides(prompt_version="another")},
        {"target": job_pb2.Target(type="document", id="7")},
        {"labels": {LABEL: target.run, "more": "1"}},
        {"run_time": None},
        {"start_by_time": Timestamp(seconds=NEVER_DUE.seconds + 1)},
    ]
    for change in changes:
        other = target.waiting(idempotency_key=request.idempotency_key, **change)
        call = target.control.call("CreateJob", other)
        error = await refused(call, "IDEMPOTENCY_KEY_REUSED", when=f"another {next(iter(change))}")
        named = error.metadata.get("job_id")
        require(named == made.job_id, f"it names {named!r} and not the key's job")


async def a_key_outlives_the_end_of_its_job(target: Target) -> None:
    """After a job's end its key still stands for it."""
    request = target.waiting()
    made = (await target.control.call("CreateJob", request)).job
    ended = await target.control.cancel(made.job_id)
    again = await target.control.call("CreateJob", request)
    require(again.replayed and again.job.job_id == made.job_id, "the key made another job")
    require(again.job.state == ended.state, f"the replay shows state {again.job.state}")


async def racing_calls_make_one_job(target: Target) -> None:
    """Twenty calls at once with one key and body make one job, and all but one are replays."""
    request = target.waiting()
    calls = [target.control.call("CreateJob", request) for _ in range(_RACING_CALLS)]
    answers = await asyncio.gather(*calls)
    jobs = {each.job.job_id for each in answers}
    require(len(jobs) == 1, f"they made {len(jobs)} jobs")
    first = sum(not each.replayed for each in answers)
    require(first == 1, f"{first} of them are marked as the first")


async def of_racing_bodies_one_wins(target: Target) -> None:
    """Of two bodies that race for a key one gets a job, and every call with the other is told of it."""
    one = target.waiting(input=b'{"items": 1}')
    other = target.waiting(input=b'{"items": 2}', idempotency_key=one.idempotency_key)
    calls = [
        target.control.call("CreateJob", each) for _ in range(_RACING_CALLS // 2) for each in (one, other)
    ]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    jobs = {each.job.job_id for each in answers if isinstance(each, pb.CreateJobResponse)}
    require(len(jobs) == 1, f"they made {len(jobs)} jobs")
    errors = [each for each in answers if isinstance(each, BaseException)]
    require(len(errors) == _RACING_CALLS // 2, f"{len(errors)} calls were refused")
    for error in errors:
        require(isinstance(error, Refused), f"a call ended with {error!r}")
        assert isinstance(error, Refused)
        require(error.reason == "IDEMPOTENCY_KEY_REUSED", f"a call was refused with {error}")
        require({error.metadata.get("job_id")} == jobs, "the refusal does not name the job")


THEME = Theme(
    "idempotency",
    (
        the_same_key_and_body_give_the_same_job,
        key_order_and_white_space_do_not_count,
        another_body_is_refused_and_names_the_job,
        a_key_outlives_the_end_of_its_job,
        racing_calls_make_one_job,
        of_racing_bodies_one_wins,
    ),
)
