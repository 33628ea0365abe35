"""The life of a job: one table of changes, from which every guard, mapping and document is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from shared.domain.identity import BatchId, JobId, JobType, Owner, QueueName


class JobState(StrEnum):
    """Where a job is in its life."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class JobChange(StrEnum):
    """What can happen to a job's state."""

    LEASED = "leased"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WaitCause(StrEnum):
    """Why a job is not running."""

    RUNNING = "running"
    ENDED = "ended"
    NOT_DUE = "not_due"
    BACKOFF = "backoff"
    QUEUE_PAUSED = "queue_paused"
    JOB_TYPE_PAUSED = "job_type_paused"
    NO_EXECUTOR = "no_executor"
    LIMIT = "limit"
    RATE = "rate"
    BEHIND = "behind"
    DISPATCH_DEAD = "dispatch_dead"


@dataclass(frozen=True, slots=True)
class Transition:
    """The states in which a change is allowed, and the one that it leads to."""

    sources: frozenset[JobState]
    target: JobState


TRANSITIONS: Mapping[JobChange, Transition] = MappingProxyType(
    {
        # From RUNNING only between attempts, while the job has no lease.
        JobChange.LEASED: Transition(frozenset({JobState.QUEUED, JobState.RUNNING}), JobState.RUNNING),
        JobChange.SUCCEEDED: Transition(frozenset({JobState.RUNNING}), JobState.SUCCEEDED),
        JobChange.FAILED: Transition(frozenset({JobState.RUNNING}), JobState.FAILED),
        JobChange.CANCELLED: Transition(frozenset({JobState.QUEUED, JobState.RUNNING}), JobState.CANCELLED),
    }
)

TERMINAL_STATES = frozenset(JobState) - frozenset[JobState]().union(
    *(t.sources for t in TRANSITIONS.values())
)

RETRYABLE_STATES = TERMINAL_STATES - {JobState.SUCCEEDED}
"""A job that ended so may be run again: as a new one, for it stays as it is."""


@dataclass(frozen=True, slots=True)
class JobError:
    """Why an attempt or a job ended without success.

    Attributes:
        code: An engine error code, such as `PROVIDER_TIMEOUT`.
        message: For callers: no path, address, stack, or provider's raw text.
        internal_message: For operators.
    """

    code: str
    message: str
    internal_message: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """What a job is about, in the caller's own words."""

    type: str
    id: str


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Where a cancel stands; all times are the database's."""

    request_time: datetime
    seen_time: datetime | None = None
    stop_time: datetime | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """A job, as its owner sees it; all times are the database's.

    Attributes:
        attempt: Number of the last lease; 0 before the first.
        next_attempt_time: When the next attempt is due; None while one runs and after the end.
        error: Why the job ended, once it has; before that, of the last attempt that ended without success.
        last_event_number: Events are numbered from 1 on, without gaps.
        batch_item: Its number in the batch that it is an item of; None if it is in none.
    """

    job_id: JobId
    owner: Owner
    job_type: JobType
    queue: QueueName
    state: JobState
    priority: int
    progress: int
    progress_message: str
    create_time: datetime
    start_time: datetime | None
    finish_time: datetime | None
    start_by_time: datetime | None
    next_attempt_time: datetime | None
    attempt: int
    failures: int
    losses: int
    error: JobError | None
    cancellation: Cancellation | None
    artifact_count: int
    output_hash: str
    origin_job_id: JobId | None
    target: Target | None
    labels: Mapping[str, str]
    input_schema_version: int
    output_schema_version: int
    last_event_number: int
    batch_id: BatchId | None = None
    batch_item: int | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """One thing that a job made.

    Attributes:
        type: For example `knowledge_item`.
        id: Unique for the job and type.
        ordinal: Position among the job's artifacts, from 1 on.
        content: JSON text for reading it back over gRPC; empty if its projector keeps none.
    """

    type: str
    id: str
    ordinal: int
    content: bytes = b""
