"""From the engine's values to messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from job_api.operations.list_attempts import Attempt
from job_api.operations.list_job_definitions import ListedDefinition
from shared.domain.events import JobEvent
from shared.domain.jobs import TERMINAL_STATES, Artifact, Cancellation, Job, JobError, JobState
from shared.domain.timings import JobTimings
from shared.gen.baton.v1 import job_pb2


def job_message(job: Job, *, inside: bool, artifacts: Sequence[Artifact] = ()) -> job_pb2.Job:
    """Render a job.

    Args:
        inside: Whether the caller may see what happened inside.
    """
    error = error_message(job.error, inside=inside)
    return job_pb2.Job(
        job_id=str(job.job_id),
        job_type=job.job_type,
        owner=job.owner,
        state=state_number(job.state),
        queue=job.queue,
        priority=job.priority,
        progress=job.progress,
        progress_message=job.progress_message,
        create_time=timestamp(job.create_time),
        start_time=timestamp(job.start_time),
        finish_time=timestamp(job.finish_time),
        attempt=job.attempt,
        next_attempt_time=timestamp(job.next_attempt_time),
        error=error if job.state in TERMINAL_STATES else None,
        last_attempt_error=None if job.state in TERMINAL_STATES else error,
        artifact_count=job.artifact_count,
        artifacts=[artifact_message(each) for each in artifacts],
        origin_job_id=str(job.origin_job_id) if job.origin_job_id else "",
        target=job_pb2.Target(type=job.target.type, id=job.target.id) if job.target else None,
        labels=dict(job.labels),
        cancellation=_cancellation(job.cancellation),
        failure_count=job.failures,
        loss_count=job.losses,
        start_by_time=timestamp(job.start_by_time),
        last_event_number=job.last_event_number,
        input_schema_version=job.input_schema_version,
        output_schema_version=job.output_schema_version,
        output_hash=job.output_hash,
        batch_id=str(job.batch_id) if job.batch_id else "",
        batch_item=job.batch_item or 0,
    )


def event_message(event: JobEvent, *, inside: bool) -> job_pb2.JobEvent:
    return job_pb2.JobEvent(
        job_id=str(event.job_id),
        number=event.number,
        kind=_number(job_pb2.JobEventKind, "JOB_EVENT_KIND", event.kind),
        state=state_number(event.state),
        attempt=event.attempt,
        event_time=timestamp(event.event_time),
        outcome=_number(job_pb2.AttemptOutcome, "ATTEMPT_OUTCOME", event.outcome),
        error=error_message(event.error, inside=inside),
        next_attempt_time=timestamp(event.next_attempt_time),
        forced=event.forced,
    )


def attempt_message(attempt: Attempt, *, inside: bool) -> job_pb2.Attempt:
    return job_pb2.Attempt(
        number=attempt.number,
        executor_name=attempt.executor_name,
        incarnation_id=str(attempt.incarnation_id),
        token_epoch=attempt.number,
        start_time=timestamp(attempt.start_time),
        end_time=timestamp(attempt.end_time),
        outcome=_number(job_pb2.AttemptOutcome, "ATTEMPT_OUTCOME", attempt.outcome),
        error=error_message(attempt.error, inside=inside),
        suspect=attempt.suspect,
    )


def timings_message(timings: JobTimings) -> job_pb2.JobTimings:
    return job_pb2.JobTimings(
        waiting=duration(timings.waiting),
        running=duration(timings.running),
        between_attempts=duration(timings.between_attempts),
        total=duration(timings.total),
    )


def artifact_message(artifact: Artifact) -> job_pb2.Artifact:
    return job_pb2.Artifact(
        type=artifact.type, artifact_id=artifact.id, ordinal=artifact.ordinal, content=artifact.content
    )


def definition_message(listed: ListedDefinition) -> job_pb2.JobDefinition:
    definition = listed.definition
    return job_pb2.JobDefinition(
        job_type=definition.job_type,
        label=definition.label,
        description=definition.description,
        domain=definition.domain,
        version=definition.version,
        queue=definition.queue,
        default_priority=definition.default_priority,
        timeout=duration(definition.timeout),
        max_retries=listed.max_retries,
        cancellable=definition.cancellable,
        input_schema_version=definition.input_schema_version,
        input_schema=listed.input_schema,
        output_schema_version=definition.output_schema_version,
        output_schema=listed.output_schema,
    )


def state_number(state: JobState) -> job_pb2.JobState.ValueType:
    return job_pb2.JobState.Value(f"JOB_STATE_{state.name}")


def timestamp(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    message = Timestamp()
    message.FromDatetime(moment)
    return message


def duration(span: timedelta) -> Duration:
    message = Duration()
    message.FromTimedelta(span)
    return message


def _number(kind, prefix: str, value: StrEnum | None):  # type: ignore[no-untyped-def]
    return kind.Value(f"{prefix}_{value.name if value is not None else 'UNSPECIFIED'}")


def error_message(error: JobError | None, *, inside: bool) -> job_pb2.JobError | None:
    if error is None:
        return None
    return job_pb2.JobError(
        code=error.code,
        message=error.message,
        internal_message=error.internal_message if inside else "",
    )


def _cancellation(cancellation: Cancellation | None) -> job_pb2.Cancellation | None:
    if cancellation is None:
        return None
    return job_pb2.Cancellation(
        request_time=timestamp(cancellation.request_time),
        seen_time=timestamp(cancellation.seen_time),
        stop_time=timestamp(cancellation.stop_time),
        forced=cancellation.forced,
    )
