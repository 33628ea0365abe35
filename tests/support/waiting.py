"""Attempts that wait, without a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.domain.identity import JobId, JobType, QueueName, StreamName
from shared.domain.queues import StreamKey
from shared.runtime.ids import new_id

URGENT = StreamKey(QueueName("drill"), JobType("synthetic"), 1, 1, 0).name
NORMAL = StreamKey(QueueName("drill"), JobType("synthetic"), 1, 1, 2).name
IMPORTS = StreamKey(QueueName("import"), JobType("document_import"), 1, 1, 1).name


@dataclass(frozen=True)
class Waiting:
    """An attempt that waits, as the outbox has it."""

    stream: StreamName
    job_id: JobId
    job_type: JobType
    queue: QueueName
    priority: int = 50
    attempt: int = 1


def waiting(stream: StreamName = NORMAL, **changes: Any) -> Waiting:
    """A new job's first attempt, with what is named set differently."""
    queue, job_type, *_ = stream.split(":")
    return Waiting(stream, JobId(new_id()), JobType(job_type), QueueName(queue), **changes)
