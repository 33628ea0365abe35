"""What operators see: frozen values, with a JSON form for scripts. All times are the database's, in UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from job_api.client.json_form import as_json
from shared.domain.events import OutboxState
from shared.domain.identity import IncarnationId, JobId, JobType, QueueName
from shared.domain.jobs import WaitCause


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessageView:
    """A message that leaves the database, or can't.

    Attributes:
        aggregate_id: Of the job or batch that it is about.
        tries: Failed deliveries that were its own fault.
        payload: A JSON value.
        available_time: When it may be delivered.
    """

    outbox_id: int
    event_type: str
    aggregate_type: str
    aggregate_id: UUID
    state: OutboxState
    tries: int
    payload: Any
    last_error_code: str
    last_error_message: str
    available_time: datetime
    delivered_time: datetime | None

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorView:
    """An executor that is or was connected; what the service does not know is None.

    Attributes:
        incarnation_id: Of its start.
        runtime: What runs there, in its own words.
        leases: That it holds.
        credits: Leases that it can take now.
        last_seen_time: Of its last hello, or last heartbeat for a lease.
        draining: True if it goes, or its service does.
    """

    executor_name: str
    incarnation_id: IncarnationId
    runtime: str
    job_types: Sequence[JobType]
    leases: int
    credits: int | None
    last_seen_time: datetime
    draining: bool | None

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True)
class PauseView:
    """Who paused something, when, and the note that was left."""

    subject: str
    pause_time: datetime
    note: str

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReasonView:
    """One reason why a job is not running.

    Attributes:
        sentence: For people.
        until_time: When it passes by itself.
        holding_job_ids: Of a limit: jobs that use it up, as far as the caller may see them.
        count: How many jobs go first, or how many a limit lets through.
        more: Whether more jobs may go first than were counted.
    """

    cause: WaitCause
    sentence: str
    until_time: datetime | None
    pause: PauseView | None
    holding_job_ids: Sequence[JobId]
    count: int
    more: bool

    def to_json(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """How a queue is doing; what the service does not know is None.

    Attributes:
        waiting: Jobs that wait for an executor, due or not.
        more_waiting: Whether there are more than were counted.
        running: Jobs with a lease.
        oldest_due_age: How long the oldest due job has waited; None if none is due.
        executors: Those that announce one of its job types.
        credits: Leases that they can take now, at least.
    """

    queue: QueueName
    group: str
    waiting: int
    more_waiting: bool
    running: int
    oldest_due_age: timedelta | None
    started_last_minute: int | None
    finished_last_minute: int
    executors: int
    credits: int | None
    pause: PauseView | None
    job_type_pauses: Mapping[JobType, PauseView]

    def to_json(self) -> dict[str, Any]:
        return as_json(self)
