"""How requests are refused that are not what the protocol says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import fields_of, refused
from verification.conformance.services.target import Target
from verification.evidence.tables import LABEL
from verification.unmet import require

NO_JOB = "00000000-0000-4000-8000-000000000000"

_ABOUT_A_JOB: tuple[tuple[str, Callable[[str], Message]], ...] = (
    ("GetJob", lambda job_id: pb.GetJobRequest(job_id=job_id)),
    ("GetJobOutput", lambda job_id: pb.GetJobOutputRequest(job_id=job_id)),
    ("ListAttempts", lambda job_id: pb.ListAttemptsRequest(job_id=job_id)),
    ("ListArtifacts", lambda job_id: pb.ListArtifactsRequest(job_id=job_id)),
    ("CancelJob", lambda job_id: pb.CancelJobRequest(job_id=job_id)),
)

_BAD_FIELDS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"job_type": ""}, "job_type"),
    ({"job_type": "a" * 1_000}, "job_type"),
    ({"idempotency_key": "7 chars"}, "idempotency_key"),
    ({"idempotency_key": "with a space"}, "idempotency_key"),
    ({"idempotency_key": "é" * 10}, "idempotency_key"),
    ({"idempotency_key": "a" * 129}, "idempotency_key"),
    ({"target": job_pb2.Target(id="i")}, "target.type"),
    ({"target": job_pb2.Target(type="t")}, "target.id"),
    ({"target": job_pb2.Target(type="t" * 65, id="i")}, "target.type"),
    ({"target": job_pb2.Target(type="t", id="i" * 201)}, "target.id"),
    ({"run_time": Timestamp(seconds=2**62)}, "run_time"),
    ({"start_by_time": Timestamp(nanos=-1)}, "start_by_time"),
    ({"overrides": pb.JobOverrides(priority=101)}, "overrides.priority"),
    ({"overrides": pb.JobOverrides(credential_id="c" * 65)}, "overrides.credential_id"),
    ({"overrides": pb.JobOverrides(prompt_version="p" * 65)}, "overrides.prompt_version"),
    ({"overrides": pb.JobOverrides(output_schema_version=4_000_000)}, "overrides.output_schema_version"),
    ({"labels": {str(number): "" for number in range(33)}}, "labels"),
    ({"labels": {"k" * 64: ""}}, "labels"),
    ({"labels": {"": ""}}, "labels"),
    ({"labels": {"k": "v" * 201}}, "labels"),
)

_BAD_INPUTS = (
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b'{"items": NaN}',
    b'{"items": 1, "items": 2}',
    b'{"note": "\\u0000"}',
    b'{"items": "many"}',
    b'{"items": -1}',
    b'{"no_such_field": 1}',
)


async def a_job_that_is_not_there_is_not_found(target: Target) -> None:
    """Every call about a job that does not exist is JOB_NOT_FOUND."""
    for method, request in _ABOUT_A_JOB:
        await refused(target.control.call(method, request(NO_JOB)), "JOB_NOT_FOUND", when=method)
    await refused(_first_of_watch(target, NO_JOB), "JOB_NOT_FOUND", when="WatchJob")


async def an_id_that_is_none_is_refused(target: Target) -> None:
    """Every call with a job id that is no UUID is INVALID_INPUT, and names the field."""
    for bad in ("", "7", NO_JOB + "0"):
        for method, request in _ABOUT_A_JOB:
            call = target.control.call(method, request(bad))
            await refused(call, "INVALID_INPUT", "job_id", when=f"{method} of {bad!r}")
        await refused(_first_of_watch(target, bad), "INVALID_INPUT", "job_id", when=f"WatchJob of {bad!r}")


async def a_field_out_of_range_is_refused_by_its_path(target: Target) -> None:
    """A request with a field outside its range is INVALID_INPUT, and `BadRequest` names the field."""
    for change, field in _BAD_FIELDS:
        if "labels" in change:
            change = {"labels": {LABEL: target.run, **change["labels"]}}  # noqa: PLW2901 - should it be taken
        call = target.control.call("CreateJob", target.waiting(**change))
        error = await refused(call, "INVALID_INPUT", when=f"{field} is {next(iter(change.values()))!r:.80}")
        named = fields_of(error)
        require(any(each.startswith(field) for each in named), f"BadRequest names {named}, not {field}")


async def all_fields_at_fault_are_named_at_once(target: Target) -> None:
    """A request with several faults is told all of them."""
    request = target.waiting(
        idempotency_key="short", target=job_pb2.Target(type="t"), overrides=pb.JobOverrides(priority=101)
    )
    call = target.control.call("CreateJob", request)
    await refused(call, "INVALID_INPUT", "idempotency_key", "target.id", "overrides.priority")


async def a_start_by_before_the_run_time_is_refused(target: Target) -> None:
    """A job that would be cancelled before it may start is INVALID_INPUT."""
    request = target.waiting(start_by_time=Timestamp(seconds=4_102_444_799))
    await refused(target.control.call("CreateJob", request), "INVALID_INPUT", "start_by_time")


async def an_unknown_job_type_is_refused(target: Target) -> None:
    """A job type that nobody registered is UNKNOWN_JOB_TYPE."""
    for job_type in ("no_such_type", "Synthetic"):
        call = target.control.call("CreateJob", target.waiting(job_type=job_type))
        await refused(call, "UNKNOWN_JOB_TYPE", when=job_type)


async def an_input_that_does_not_fit_is_refused(target: Target) -> None:
    """An input that is no JSON, has a key twice or does not fit its model is INVALID_INPUT at `input`."""
    for document in _BAD_INPUTS:
        call = target.control.call("CreateJob", target.waiting(input=document))
        error = await refused(call, "INVALID_INPUT", when=f"the input {document!r}")
        named = fields_of(error)
        inside = [each for each in named if each.split(".")[0].split("[")[0] == "input"]
        require(inside and inside == list(named), f"BadRequest names {named} for the input {document!r}")


async def bytes_that_are_no_message_are_refused(target: Target) -> None:
    """Bytes that are no message are INVALID_ARGUMENT, and the service goes on."""
    raw: Any = target.channel.unary_unary("/baton.v1.JobControl/GetJob")
    await refused(_answer_of(target, raw), "INVALID_INPUT")
    await target.waiting_job()


async def _answer_of(target: Target, raw: Any) -> Any:
    return await target.answered("GetJob", raw(b"\xff\xff\xff\xff", metadata=target.metadata))


async def _first_of_watch(target: Target, job_id: str) -> Any:
    async for update in target.control.watch(job_id):
        return update
    return None


THEME = Theme(
    "errors",
    (
        a_job_that_is_not_there_is_not_found,
        an_id_that_is_none_is_refused,
        a_field_out_of_range_is_refused_by_its_path,
        all_fields_at_fault_are_named_at_once,
        a_start_by_before_the_run_time_is_refused,
        an_unknown_job_type_is_refused,
        an_input_that_does_not_fit_is_refused,
        bytes_that_are_no_message_are_refused,
    ),
)
