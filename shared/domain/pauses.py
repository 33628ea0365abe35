"""Pauses: nothing of a paused queue or job type is leased; what is leased goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from shared.domain.identity import JobType, Owner, QueueName


class PauseKind(StrEnum):
    """What can be paused."""

    QUEUE = "queue"
    JOB_TYPE = "job_type"


@dataclass(frozen=True, slots=True)
class Pausable:
    """A queue or a job type."""

    kind: PauseKind
    name: QueueName | JobType


@dataclass(frozen=True, slots=True)
class Pause:
    """Who paused something, with what note, and when, by the database's clock."""

    subject: Owner
    note: str
    pause_time: datetime
