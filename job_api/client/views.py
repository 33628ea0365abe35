"""What callers see of jobs: frozen values, with a JSON form for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from job_api.client.json_form import as_json
from shared.domain.attempts import AttemptOutcome
from shared.domain.events import JobEvent
from shared.domain.identity import BatchId, IncarnationId, JobId, JobType, Owner, QueueName, UploadId
from shared.domain.jobs import TERMINAL_STATES, Cancellation, JobError, JobState, Target
from shared.domain.timings import JobTimings


@dataclass(frozen=True, slots=True)
class ArtifactView:
    """One thing that a job made.

    Attributes:
        artifact_id: Unique for the job and type.
        ordinal: Position among the job's artifacts, from 1 on.
        content: A JSON value; None where it was not asked for or is not kept.
    """

    type: str
    artifact_id: str
    ordinal: int
    content: Any = None

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job, as its owner sees it; all times are the database's, in UTC.

    Attributes:
        progress: Per cent, of the current or last attempt.
        attempt: Number of the last lease; 0 before the first.
        next_attempt_time: When the next attempt is due, while one is waited for.
        error: Why it FAILED.
        batch_item: Its number in the batch that it is an item of.
        last_attempt_error: Of the last attempt that ended without success, while the job goes on.
        replayed: Of a creation only: an earlier call with the same key had created the job.
    """

    job_id: JobId
    job_type: JobType
    owner: Owner
    state: JobState
    queue: QueueName
    priority: int
    progress: int
    progress_message: str
    create_time: datetime
    start_time: datetime | None
    finish_time: datetime | None
    start_by_time: datetime | None
    next_attempt_time: datetime | None
    attempt: int
    failure_count: int
    loss_count: int
    error: JobError | None
    last_attempt_error: JobError | None
    cancellation: Cancellation | None
    artifact_count: int
    origin_job_id: JobId | None
    target: Target | None
    labels: Mapping[str, str]
    last_event_number: int
    output_hash: str
    batch_id: BatchId | None = None
    batch_item: int | None = None
    replayed: bool = False

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL_STATES

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One lease of a job, from grant to end; end and outcome are None while it runs."""

    number: int
    executor_name: str
    incarnation_id: IncarnationId | None
    start_time: datetime
    end_time: datetime | None
    outcome: AttemptOutcome | None
    error: JobError | None
    suspect: bool

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJobView(JobView):
    """A job with what was tried for it.

    Attributes:
        attempts: The newest ones, at most 100, the newest last; `attempts` of a client has all.
        timings: Where its time has gone, by the database's clock.
    """

    attempts: Sequence[AttemptView]
    timings: JobTimings


@dataclass(frozen=True, slots=True)
class DefinitionView:
    """A job type that can be asked for; the schemas are JSON Schema."""

    job_type: JobType
    label: str
    description: str
    domain: str
    version: int
    queue: QueueName
    default_priority: int
    timeout: timedelta
    max_retries: int
    cancellable: bool
    input_schema_version: int
    input_schema: Any
    output_schema_version: int
    output_schema: Any

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEventView:
    """An event for other services.

    Attributes:
        aggregate_id: Of the job or batch that it is about.
        dedupe_key: Unique for the event.
        payload: A JSON value.
        event_time: By the database's clock, in UTC.
        cursor: Go on after this event with it, in a list or a watch.
    """

    event_type: str
    aggregate_type: str
    aggregate_id: UUID
    dedupe_key: str
    payload: Any
    event_time: datetime
    cursor: str

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True)
class Upload:
    """A stored document, for an input to refer to.

    Attributes:
        sha256: In hex.
    """

    upload_id: UploadId
    document_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt is, in per cent; values between two of these may have been passed over."""

    attempt: int
    progress: int
    progress_message: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of streamed output, numbered from 1 on within its attempt."""

    attempt: int
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class ViewBegan:
    """A live view begins, for the first time or after a break: what is listed now misses no later change."""

    def to_json(self) -> dict[str, Any]:
        return {"began": {}}


@dataclass(frozen=True, slots=True)
class JobChange:
    """A job that changed, as it is now.

    Attributes:
        left: It fitted what is watched, and no longer does; it may not have been shown before.
    """

    job: JobView
    left: bool

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True)
class Update:
    """One thing that happened to a watched job, and where to resume after it."""

    cursor: str
    what: JobEvent | Progress | Piece

    def to_json(self) -> dict[str, Any]:
        """Name the kind of update by its key, as the contract does."""
        return {
            type(self.what).__name__.removeprefix("Job").lower(): as_json(self.what),
            "cursor": self.cursor,
        }
