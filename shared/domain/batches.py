"""The life of a batch: many jobs of one type that were asked for together, and settle together.

A batch settles when no item is open: by the transaction whose counters say so, never by counting rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from shared.domain.identity import BatchId, JobId, JobType, Owner
from shared.domain.jobs import Job, JobError, JobState, Target


class BatchState(StrEnum):
    """Where a batch is in its life."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PARTIALLY_FAILED = "PARTIALLY_FAILED"
    AWAITING_REVIEW = "AWAITING_REVIEW"
    SELECTED = "SELECTED"
    EXPORTED = "EXPORTED"
    STORED = "STORED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class BatchChange(StrEnum):
    """What can happen to a batch's state."""

    STARTED = "started"
    SUCCEEDED = "succeeded"
    PARTIALLY_FAILED = "partially_failed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RETRIED = "retried"
    SELECTED = "selected"
    EXPORTED = "exported"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class BatchTransition:
    """The states in which a change is allowed, and the one that it leads to."""

    sources: frozenset[BatchState]
    target: BatchState


OPEN_STATES = frozenset({BatchState.QUEUED, BatchState.RUNNING})
"""While items are open; in all others the batch has settled."""

BATCH_TRANSITIONS: Mapping[BatchChange, BatchTransition] = MappingProxyType(
    {
        BatchChange.STARTED: BatchTransition(frozenset({BatchState.QUEUED}), BatchState.RUNNING),
        BatchChange.SUCCEEDED: BatchTransition(OPEN_STATES, BatchState.AWAITING_REVIEW),
        BatchChange.PARTIALLY_FAILED: BatchTransition(OPEN_STATES, BatchState.PARTIALLY_FAILED),
        BatchChange.FAILED: BatchTransition(OPEN_STATES, BatchState.FAILED),
        BatchChange.CANCELLED: BatchTransition(OPEN_STATES, BatchState.CANCELLED),
        BatchChange.RETRIED: BatchTransition(
            frozenset({BatchState.PARTIALLY_FAILED, BatchState.FAILED}), BatchState.QUEUED
        ),
        BatchChange.SELECTED: BatchTransition(
            frozenset({BatchState.AWAITING_REVIEW, BatchState.PARTIALLY_FAILED}), BatchState.SELECTED
        ),
        BatchChange.EXPORTED: BatchTransition(frozenset({BatchState.SELECTED}), BatchState.EXPORTED),
        BatchChange.STORED: BatchTransition(frozenset({BatchState.EXPORTED}), BatchState.STORED),
    }
)


@dataclass(frozen=True, slots=True)
class BatchCounters:
    """How many items are where; they always add up to the batch's size.

    Attributes:
        waiting: Queued, or between attempts.
        running: Leased.
        skipped: Cancelled.
    """

    waiting: int
    running: int
    succeeded: int
    failed: int
    skipped: int


def settled_by(counters: BatchCounters, *, cancel_requested: bool) -> BatchChange | None:
    """Say how a batch settles with these counters; None while items are open.

    Args:
        cancel_requested: CancelBatch was called: then nothing waits, and what has succeeded does not count.
    """
    if counters.waiting or counters.running:
        return None
    if cancel_requested:
        return BatchChange.CANCELLED
    if counters.failed:
        return BatchChange.PARTIALLY_FAILED if counters.succeeded else BatchChange.FAILED
    return BatchChange.SUCCEEDED if counters.succeeded else BatchChange.CANCELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch, as its owner sees it; all times are the database's.

    Attributes:
        start_time: When its first item started.
        settle_time: When it last settled.
        cancel_request_time: When CancelBatch was called.
        last_event_number: Events are numbered from 1 on, without gaps.
    """

    batch_id: BatchId
    owner: Owner
    job_type: JobType
    title: str
    target: Target | None
    labels: Mapping[str, str]
    state: BatchState
    size: int
    counters: BatchCounters
    create_time: datetime
    start_time: datetime | None
    settle_time: datetime | None
    cancel_request_time: datetime | None
    last_event_number: int

    @property
    def progress(self) -> int:
        """Per cent of the items that are not open any more, rounded down."""
        return 100 * (self.size - self.counters.waiting - self.counters.running) // self.size


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One item of a batch.

    Attributes:
        number: From 1 on.
        job: The newest one under this number.
        earlier_job_ids: Oldest first.
        attempt_count: Over all of its jobs.
        selected: A caller has picked it.
    """

    number: int
    job: Job
    earlier_job_ids: Sequence[JobId]
    attempt_count: int
    selected: bool


@dataclass(frozen=True, slots=True)
class BatchEvent:
    """One numbered event of a batch: it started, an item ended, it settled, or a caller changed it.

    Attributes:
        state: The batch's state after the event; `counters` too.
        item: For the end of an item its number, with the state of its job; else 0.
        error: For an item that failed.
    """

    batch_id: BatchId
    number: int
    state: BatchState
    counters: BatchCounters
    event_time: datetime
    item: int = 0
    item_state: JobState | None = None
    error: JobError | None = None
