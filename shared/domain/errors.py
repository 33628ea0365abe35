"""What can go wrong, in the engine's own words.

BatonError
├── InvalidInput          a caller sent values outside their documented ranges
├── UnknownJobType        no definition has that name
├── InvalidPageToken      not a token that this list gave out
├── PayloadTooLarge       a document or message over its limit
├── JobNotFound
├── BatchNotFound
├── JobNotCancellable     it has ended, or its definition forbids it while it is leased
├── JobAlreadyCancelled
├── JobNotRetryable       it has not ended
├── BatchStateConflict    the batch's state does not allow what was asked
├── LeaseLost             the token is not the job's current one
├── IdempotencyKeyReused  same key, different content
├── TooManyJobs           the owner has as many active jobs as allowed
├── QuotaExceeded         the owner's day or month is used up
├── PlatformUnavailable   something that the call needs did not answer; safe to try again
├── Unauthenticated
├── PermissionDenied
└── IllegalTransition     a bug: a change that the state does not allow; never meant for a caller

Messages are shown to callers: they hold no input, no credential and nothing of the inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import ClassVar, Literal

from shared.domain.identity import BatchId, JobId
from shared.domain.naming import there_are

Platform = Literal["database", "redis", "provider", "service", "issuer"]

_NOTHING_MORE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field that is outside its documented range.

    Attributes:
        field: The path from the request's top, in proto names: `jobs[3].labels`.
        description: A sentence for the person who sent it; never the value itself.
    """

    field: str
    description: str


class BatonError(Exception):
    """Something that a caller can be told.

    Attributes:
        reason: The stable name that programs compare; part of the contract.
        message: A sentence for people; may change.
        metadata: What a program needs besides the reason, as text.
    """

    reason: ClassVar[str]

    def __init__(self, message: str, *, metadata: Mapping[str, str] = _NOTHING_MORE) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = MappingProxyType(dict(metadata))


class InvalidInput(BatonError):
    reason = "INVALID_INPUT"

    def __init__(self, violations: Sequence[FieldViolation]) -> None:
        """Say what is wrong with a request; `violations` in the request's order, at least one."""
        self.violations = tuple(violations)
        super().__init__("; ".join(f"{each.field}: {each.description}" for each in self.violations))


class UnknownJobType(BatonError):
    reason = "UNKNOWN_JOB_TYPE"

    def __init__(self, job_type: str, known: Iterable[str] = ()) -> None:
        """Say that a job type does not exist; `known` are those that do."""
        self.job_type = job_type
        message = f"there is no job type {job_type!r}{there_are(known)}"
        super().__init__(message, metadata={"job_type": job_type})


class InvalidPageToken(BatonError):
    reason = "INVALID_PAGE_TOKEN"

    def __init__(self, message: str = "the page token is not one that this list gave out") -> None:
        super().__init__(message)


class PayloadTooLarge(BatonError):
    reason = "PAYLOAD_TOO_LARGE"

    def __init__(self, field: str, limit_bytes: int, actual_bytes: int) -> None:
        self.field = field
        self.limit_bytes = limit_bytes
        self.actual_bytes = actual_bytes
        super().__init__(
            f"{field} has {actual_bytes} bytes; at most {limit_bytes} are allowed",
            metadata={"field": field, "limit_bytes": str(limit_bytes), "actual_bytes": str(actual_bytes)},
        )


class _AboutJob(BatonError):
    """The part that errors about one job share."""

    def __init__(self, job_id: JobId, message: str) -> None:
        self.job_id = job_id
        super().__init__(message, metadata={"job_id": str(job_id)})


class _AboutBatch(BatonError):
    """The part that errors about one batch share."""

    def __init__(self, batch_id: BatchId, message: str) -> None:
        self.batch_id = batch_id
        super().__init__(message, metadata={"batch_id": str(batch_id)})


class JobNotFound(_AboutJob):
    """There is none, or it belongs to an owner whom the caller may not see: the answer is the same."""

    reason = "JOB_NOT_FOUND"

    def __init__(self, job_id: JobId) -> None:
        super().__init__(job_id, f"there is no job {job_id}")


class BatchNotFound(_AboutBatch):
    reason = "BATCH_NOT_FOUND"

    def __init__(self, batch_id: BatchId) -> None:
        super().__init__(batch_id, f"there is no batch {batch_id}")


class JobNotCancellable(_AboutJob):
    reason = "JOB_NOT_CANCELLABLE"

    def __init__(self, job_id: JobId, why: str = "it has ended") -> None:
        super().__init__(job_id, f"job {job_id} can't be cancelled: {why}")


class JobAlreadyCancelled(_AboutJob):
    reason = "JOB_ALREADY_CANCELLED"

    def __init__(self, job_id: JobId) -> None:
        super().__init__(job_id, f"job {job_id} is cancelled already")


class JobNotRetryable(_AboutJob):
    reason = "JOB_NOT_RETRYABLE"

    def __init__(self, job_id: JobId, why: str = "it has not ended") -> None:
        super().__init__(job_id, f"job {job_id} can't be run again: {why}")


class BatchStateConflict(_AboutBatch):
    reason = "BATCH_STATE_CONFLICT"

    def __init__(self, batch_id: BatchId, why: str = "its state does not allow it") -> None:
        super().__init__(batch_id, f"batch {batch_id}: {why}")


class LeaseLost(_AboutJob):
    """Whoever sent the token holds the job no more; nothing was stored."""

    reason = "LEASE_LOST"

    def __init__(self, job_id: JobId) -> None:
        super().__init__(job_id, f"the lease of job {job_id} has ended")


class IdempotencyKeyReused(BatonError):
    """Names the job or batch that the key stands for; it is the caller's own."""

    reason = "IDEMPOTENCY_KEY_REUSED"

    def __init__(self, job_id: JobId | None, batch_id: BatchId | None = None) -> None:
        """Name one of them."""
        self.job_id = job_id
        self.batch_id = batch_id
        kind, found = ("job", job_id) if batch_id is None else ("batch", batch_id)
        super().__init__(
            f"the idempotency key stands for {kind} {found}, with other content",
            metadata={f"{kind}_id": str(found)},
        )


class TooManyJobs(BatonError):
    reason = "TOO_MANY_JOBS"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"the owner may have at most {limit} active jobs", metadata={"limit": str(limit)})


class QuotaExceeded(BatonError):
    reason = "QUOTA_EXCEEDED"

    def __init__(self, quota: str, retry_after: timedelta) -> None:
        """Name the quota that is used up, and how long from now until there is more of it."""
        self.quota = quota
        self.retry_after = retry_after
        super().__init__(f"the owner's quota of {quota} is used up", metadata={"quota": quota})


class PlatformUnavailable(BatonError):
    """Something below did not answer. What was asked for may have happened; asking again is safe."""

    reason = "PLATFORM_UNAVAILABLE"

    def __init__(self, what: Platform) -> None:
        self.what: Platform = what
        said = "stops" if what == "service" else "did not answer"
        super().__init__(f"the {what} {said}; try again", metadata={"what": what})


class Unauthenticated(BatonError):
    reason = "UNAUTHENTICATED"

    def __init__(self, message: str = "a valid bearer token is needed") -> None:
        super().__init__(message)


class PermissionDenied(BatonError):
    reason = "PERMISSION_DENIED"

    def __init__(self, scope: str | None) -> None:
        """Name the scope that the caller lacks; None where no scope opens the door."""
        self.scope = scope
        if scope is None:
            super().__init__("nobody may call this method")
        else:
            super().__init__(f"the scope {scope} is needed", metadata={"scope": scope})


class IllegalTransition(BatonError):
    """A change that the state does not allow; nothing changed. Operations turn it into what they mean."""

    reason = "ILLEGAL_TRANSITION"
