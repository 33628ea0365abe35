"""From requests to commands, with a check of every single field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from job_api.operations.caller import Caller
from job_api.operations.create_jobs import Wish
from job_api.operations.job_request import CreateJobCommand, Overrides
from job_api.operations.list_jobs import JobFilter
from job_api.operations.upload_input import UploadCommand
from job_api.operations.watch_job import WatchCommand
from job_api.rpc.fields import NAME_CHARACTERS_MAX, Fields
from shared.catalog.definition import CredentialMode
from shared.domain.errors import FieldViolation, InvalidInput
from shared.domain.identity import JobId, JobType, Owner, QueueName
from shared.domain.jobs import JobState, Target
from shared.domain.queues import PRIORITY_MAX
from shared.domain.scopes import JOBS_ADMIN, JOBS_ON_BEHALF
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.rpc import identity

IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{8,128}")
TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, level 1; anything else is ignored, as that page asks."""

LABELS_IN_FILTER_MAX = 32
EVENT_NUMBER_MAX = 2**31 - 1
"""Far beyond any job's events."""

_CREDENTIAL_MODES: Mapping[int, CredentialMode | None] = {
    job_pb2.CREDENTIAL_MODE_UNSPECIFIED: None,
    job_pb2.CREDENTIAL_MODE_PLATFORM_KEY: CredentialMode.PLATFORM_KEY,
    job_pb2.CREDENTIAL_MODE_USER_KEY: CredentialMode.USER_KEY,
}
_STATES: Mapping[int, JobState] = {
    value: JobState[name.removeprefix("JOB_STATE_")]
    for name, value in job_pb2.JobState.items()
    if value != job_pb2.JOB_STATE_UNSPECIFIED
}


def caller() -> Caller:
    """Say who makes the call that is being served, in the operations' words."""
    known = identity.current_caller()
    return Caller(
        Owner(known.subject),
        acts_for_others=known.may(JOBS_ON_BEHALF),
        sees_all=known.may(JOBS_ADMIN),
    )


def job_id(value: str) -> JobId:
    with Fields() as fields:
        return fields.job_id(value)


def create_job_command(
    request: pb.CreateJobRequest, *, labels_max: int, traceparent: str
) -> CreateJobCommand:
    with Fields() as fields:
        run_time = fields.time(request, "run_time")
        start_by_time = fields.time(request, "start_by_time")
        if run_time is not None and start_by_time is not None and start_by_time <= run_time:
            fields.refuse("start_by_time", "must be after run_time")
        return CreateJobCommand(
            job_type=fields.text("job_type", request.job_type, least=1, most=NAME_CHARACTERS_MAX),
            input=request.input,
            key=idempotency_key(fields, request),
            target=target(fields, request.target) if request.HasField("target") else None,
            run_time=run_time,
            start_by_time=start_by_time,
            overrides=overrides(fields, request.overrides),
            labels=fields.labels("labels", request.labels, most=labels_max),
            owner=fields.owner("owner", request.owner),
            traceparent=trace_context(traceparent),
        )


Keyed: TypeAlias = (
    pb.CreateJobRequest | pb.RetryJobRequest | pb.CreateBatchRequest | pb.RetryBatchItemsRequest
)


def idempotency_key(fields: Fields, request: Keyed) -> str | None:
    """None where there is none."""
    key = request.idempotency_key if request.HasField("idempotency_key") else None
    if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
        fields.refuse("idempotency_key", "must have 8 to 128 visible ASCII characters")
    return key


def trace_context(traceparent: str) -> str:
    """Empty where it is not of the form that the page asks for."""
    return traceparent if TRACEPARENT.fullmatch(traceparent) else ""


def wishes(request: pb.CreateJobsRequest, *, jobs_max: int, labels_max: int, traceparent: str) -> list[Wish]:
    """Read each item by itself: what is wrong with one is that one's outcome."""
    if not 1 <= len(request.jobs) <= jobs_max:
        raise InvalidInput([FieldViolation("jobs", f"must have 1 to {jobs_max} items")])
    return [_wish(each, labels_max=labels_max, traceparent=traceparent) for each in request.jobs]


def _wish(request: pb.CreateJobRequest, *, labels_max: int, traceparent: str) -> Wish:
    try:
        return create_job_command(request, labels_max=labels_max, traceparent=traceparent)
    except InvalidInput as error:
        return error


def upload_command(header: pb.UploadHeader) -> UploadCommand:
    with Fields() as fields:
        return UploadCommand(
            media_type=fields.text("header.media_type", header.media_type, most=200),
            file_name=fields.text("header.file_name", header.file_name, most=255),
            owner=fields.owner("header.owner", header.owner),
        )


def job_filter(fields: Fields, message: pb.JobFilter) -> JobFilter:
    """Read a filter; fields that are not set restrict nothing."""
    states = job_states(fields, "filter.states", message.states)
    job_type = fields.text("filter.job_type", message.job_type, most=NAME_CHARACTERS_MAX)
    queue = fields.text("filter.queue", message.queue, most=NAME_CHARACTERS_MAX)
    target_type, target_id = wanted_target(fields, message, top="filter.")
    return JobFilter(
        owner=fields.owner("filter.owner", message.owner),
        states=states,
        job_type=JobType(job_type) if job_type else None,
        queue=QueueName(queue) if queue else None,
        created_from=fields.time(message, "create_time_from", top="filter."),
        created_to=fields.time(message, "create_time_to", top="filter."),
        target_type=target_type,
        target_id=target_id,
        labels=fields.labels("filter.labels", message.labels, most=LABELS_IN_FILTER_MAX) or None,
        text=fields.searched("filter.text", message.text),
        batch_id=fields.batch_id("filter.batch_id", message.batch_id) if message.batch_id else None,
    )


def job_states(fields: Fields, field: str, states: Sequence[int]) -> frozenset[JobState]:
    for index, state in enumerate(states):
        if state not in _STATES:
            fields.refuse(f"{field}[{index}]", "is not a state of a job")
    return frozenset(_STATES[each] for each in states if each in _STATES)


def wanted_target(
    fields: Fields, message: pb.JobFilter | pb.ListBatchesRequest, *, top: str = ""
) -> tuple[str | None, str | None]:
    """Read type and id of a filter's target; both None where it is unset, and the id where it may be any."""
    if not message.HasField("target"):
        return None, None
    target_type = fields.text(f"{top}target.type", message.target.type, least=1, most=64)
    target_id = fields.text(f"{top}target.id", message.target.id, most=200)
    return target_type, target_id or None


def watch_command(request: pb.WatchJobRequest) -> WatchCommand:
    with Fields() as fields:
        after = after_event(fields, request)
        return WatchCommand(fields.job_id(request.job_id), after, request.cursor)


def after_event(fields: Fields, request: pb.WatchJobRequest | pb.WatchBatchRequest) -> int:
    if request.after_event_number > EVENT_NUMBER_MAX:
        fields.refuse("after_event_number", "is beyond any event's number")
    return request.after_event_number


def target(fields: Fields, told: job_pb2.Target) -> Target:
    return Target(
        type=fields.text("target.type", told.type, least=1, most=64),
        id=fields.text("target.id", told.id, least=1, most=200),
    )


def overrides(fields: Fields, told: pb.JobOverrides) -> Overrides:
    priority = told.priority if told.HasField("priority") else None
    if priority is not None and priority > PRIORITY_MAX:
        fields.refuse("overrides.priority", f"must be 0 to {PRIORITY_MAX}")
    if told.credential_mode not in _CREDENTIAL_MODES:
        fields.refuse("overrides.credential_mode", "is not a credential mode")
    return Overrides(
        priority=priority,
        credential_mode=_CREDENTIAL_MODES.get(told.credential_mode),
        credential_id=fields.text("overrides.credential_id", told.credential_id, most=64),
        prompt_version=fields.text("overrides.prompt_version", told.prompt_version, most=64),
        output_schema_version=told.output_schema_version,
    )
