"""What callers do that leaves a record."""

from __future__ import annotations

from enum import StrEnum


class AuditAction(StrEnum):
    """An effect that a caller can have. A replay and a refused call have none."""

    JOB_CREATE = "job.create"
    JOB_CANCEL = "job.cancel"
    JOB_RETRY = "job.retry"
    BATCH_CREATE = "batch.create"
    BATCH_CANCEL = "batch.cancel"
    BATCH_RETRY = "batch.retry"
    BATCH_SELECT = "batch.select"
    BATCH_ADVANCE = "batch.advance"
    QUEUE_PAUSE = "queue.pause"
    QUEUE_RESUME = "queue.resume"
    JOB_TYPE_PAUSE = "job_type.pause"
    JOB_TYPE_RESUME = "job_type.resume"
    INPUT_UPLOAD = "input.upload"
    OUTBOX_RESEND = "outbox.resend"
