"""The numbered events of a job, and the events that leave the engine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from shared.domain.attempts import AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.jobs import JobError, JobState


class JobEventKind(StrEnum):
    """What happened to a job."""

    CREATED = "created"
    STARTED = "started"
    ATTEMPT_ENDED = "attempt_ended"
    RETRY_SCHEDULED = "retry_scheduled"
    CANCEL_REQUESTED = "cancel_requested"
    CANCEL_SEEN = "cancel_seen"
    OUTPUT_RESET = "output_reset"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class OutboxEventType(StrEnum):
    """What leaves the database, as far as this version knows."""

    JOB_DISPATCH = "job.dispatch"
    JOB_SUCCEEDED = "job.succeeded"
    JOB_FAILED = "job.failed"
    JOB_CANCELLED = "job.cancelled"
    BATCH_FINISHED = "batch.finished"


class OutboxState(StrEnum):
    """Where a message that leaves the database stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One numbered event of a job.

    Attributes:
        number: 1, 2, 3 and so on in commit order, without gaps.
        state: The job's state after the event.
        attempt: The attempt that it is about; 0 if none.
        event_time: By the database's clock.
    """

    job_id: JobId
    number: int
    kind: JobEventKind
    state: JobState
    attempt: int
    event_time: datetime
    outcome: AttemptOutcome | None = None
    error: JobError | None = None
    next_attempt_time: datetime | None = None
    forced: bool = False
