"""Protobuf to views."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from job_api.client.views import (
    ArtifactView,
    AttemptView,
    DefinitionView,
    JobView,
    Piece,
    Progress,
    ShownJobView,
    Update,
    Upload,
)
from shared.domain.attempts import AttemptOutcome
from shared.domain.events import JobEvent, JobEventKind
from shared.domain.identity import BatchId, IncarnationId, JobId, JobType, Owner, QueueName, UploadId
from shared.domain.jobs import Cancellation, JobError, JobState, Target
from shared.domain.timings import JobTimings
from shared.gen.baton.v1 import job_control_pb2, job_pb2

View = TypeVar("View")


def job_view(job: job_pb2.Job, *, replayed: bool = False) -> JobView:
    return JobView(
        job_id=JobId(UUID(job.job_id)),
        job_type=JobType(job.job_type),
        owner=Owner(job.owner),
        state=state(job.state),
        queue=QueueName(job.queue),
        priority=job.priority,
        progress=job.progress,
        progress_message=job.progress_message,
        create_time=time(job.create_time),
        start_time=optional(job, "start_time", time),
        finish_time=optional(job, "finish_time", time),
        start_by_time=optional(job, "start_by_time", time),
        next_attempt_time=optional(job, "next_attempt_time", time),
        attempt=job.attempt,
        failure_count=job.failure_count,
        loss_count=job.loss_count,
        error=optional(job, "error", error),
        last_attempt_error=optional(job, "last_attempt_error", error),
        cancellation=optional(job, "cancellation", _cancellation),
        artifact_count=job.artifact_count,
        origin_job_id=JobId(UUID(job.origin_job_id)) if job.origin_job_id else None,
        target=optional(job, "target", target),
        labels=dict(job.labels),
        last_event_number=job.last_event_number,
        output_hash=job.output_hash,
        batch_id=BatchId(UUID(job.batch_id)) if job.batch_id else None,
        batch_item=job.batch_item or None,
        replayed=replayed,
    )


def shown_view(response: job_control_pb2.GetJobResponse) -> ShownJobView:
    job, told = job_view(response.job), response.timings
    return ShownJobView(
        **{each.name: getattr(job, each.name) for each in fields(job)},
        attempts=[attempt_view(each) for each in response.attempts],
        timings=JobTimings(
            waiting=told.waiting.ToTimedelta(),
            running=told.running.ToTimedelta(),
            between_attempts=told.between_attempts.ToTimedelta(),
            total=told.total.ToTimedelta(),
        ),
    )


def created_view(response: job_control_pb2.CreateJobResponse | job_control_pb2.RetryJobResponse) -> JobView:
    return job_view(response.job, replayed=response.replayed)


def state(value: job_pb2.JobState.ValueType) -> JobState:
    return JobState[job_pb2.JobState.Name(value).removeprefix("JOB_STATE_")]


def state_number(value: JobState) -> job_pb2.JobState.ValueType:
    """Its word will do as well; a ValueError refuses any other."""
    return job_pb2.JobState.Value(f"JOB_STATE_{JobState(value).name}")


def attempt_view(attempt: job_pb2.Attempt) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        executor_name=attempt.executor_name,
        incarnation_id=IncarnationId(UUID(attempt.incarnation_id)) if attempt.incarnation_id else None,
        start_time=time(attempt.start_time),
        end_time=optional(attempt, "end_time", time),
        outcome=_outcome(attempt.outcome),
        error=optional(attempt, "error", error),
        suspect=attempt.suspect,
    )


def artifact_view(artifact: job_pb2.Artifact) -> ArtifactView:
    return ArtifactView(artifact.type, artifact.artifact_id, artifact.ordinal, json_value(artifact.content))


def definition_view(definition: job_pb2.JobDefinition) -> DefinitionView:
    return DefinitionView(
        job_type=JobType(definition.job_type),
        label=definition.label,
        description=definition.description,
        domain=definition.domain,
        version=definition.version,
        queue=QueueName(definition.queue),
        default_priority=definition.default_priority,
        timeout=definition.timeout.ToTimedelta(),
        max_retries=definition.max_retries,
        cancellable=definition.cancellable,
        input_schema_version=definition.input_schema_version,
        input_schema=json_value(definition.input_schema),
        output_schema_version=definition.output_schema_version,
        output_schema=json_value(definition.output_schema),
    )


def upload(response: job_control_pb2.UploadInputResponse) -> Upload:
    return Upload(UploadId(UUID(response.upload_id)), response.document_bytes, response.sha256)


def update(message: job_control_pb2.WatchJobResponse) -> Update | None:
    """Return what a watcher should know of a message; None of one that only keeps the stream alive."""
    match message.WhichOneof("update"):
        case "event":
            return Update(message.cursor, job_event(message.event))
        case "progress":
            told = message.progress
            return Update(message.cursor, Progress(told.attempt, told.progress, told.progress_message))
        case "piece":
            piece = message.piece
            return Update(message.cursor, Piece(piece.attempt, piece.number, piece.text))
        case _:
            return None


def job_event(event: job_pb2.JobEvent) -> JobEvent:
    return JobEvent(
        job_id=JobId(UUID(event.job_id)),
        number=event.number,
        kind=JobEventKind[job_pb2.JobEventKind.Name(event.kind).removeprefix("JOB_EVENT_KIND_")],
        state=state(event.state),
        attempt=event.attempt,
        event_time=time(event.event_time),
        outcome=_outcome(event.outcome),
        error=optional(event, "error", error),
        next_attempt_time=optional(event, "next_attempt_time", time),
        forced=event.forced,
    )


def json_value(text: bytes) -> Any:
    """Read JSON text; None if there is none."""
    return json.loads(text) if text else None


def _outcome(value: job_pb2.AttemptOutcome.ValueType) -> AttemptOutcome | None:
    if value == job_pb2.ATTEMPT_OUTCOME_UNSPECIFIED:
        return None
    return AttemptOutcome[job_pb2.AttemptOutcome.Name(value).removeprefix("ATTEMPT_OUTCOME_")]


def _cancellation(cancellation: job_pb2.Cancellation) -> Cancellation:
    return Cancellation(
        request_time=time(cancellation.request_time),
        seen_time=optional(cancellation, "seen_time", time),
        stop_time=optional(cancellation, "stop_time", time),
        forced=cancellation.forced,
    )


def target(told: job_pb2.Target) -> Target:
    return Target(told.type, told.id)


def target_message(about: Target | None) -> job_pb2.Target | None:
    return job_pb2.Target(type=about.type, id=about.id) if about else None


def error(told: job_pb2.JobError) -> JobError:
    return JobError(told.code, told.message, told.internal_message)


def optional(message: Message, field: str, read: Callable[[Any], View]) -> View | None:
    """Read a field that may be unset; None then."""
    return read(getattr(message, field)) if message.HasField(field) else None


def time(timestamp: Timestamp) -> datetime:
    return timestamp.ToDatetime(tzinfo=UTC)
