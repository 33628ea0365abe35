"""Errors on the wire, told again in the engine's own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, cast
from uuid import UUID

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from shared.domain import errors
from shared.domain.errors import BatonError, FieldViolation
from shared.domain.identity import BatchId, JobId
from shared.rpc.status import DOMAIN


class CallFailed(Exception):
    """A call that ended without one of the engine's reasons: the service is out of reach, or has a bug.

    Attributes:
        status: The name of the gRPC status, for example `UNAVAILABLE` or `DEADLINE_EXCEEDED`.
        message: What the transport or the service said.
    """

    def __init__(self, status: str, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Details:
    """What an error carries besides its status and message; empty where it carries nothing."""

    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    violations: Sequence[FieldViolation] = ()
    retry_after: timedelta | None = None


Build = Callable[[Details], BatonError]


def _about_job(kind: Callable[[JobId], BatonError]) -> Build:
    return lambda told: kind(JobId(UUID(told.metadata["job_id"])))


def _about_batch(kind: Callable[[BatchId], BatonError]) -> Build:
    return lambda told: kind(BatchId(UUID(told.metadata["batch_id"])))


def _key_reused(told: Details) -> BatonError:
    job_id, batch_id = told.metadata.get("job_id"), told.metadata.get("batch_id")
    return errors.IdempotencyKeyReused(
        JobId(UUID(job_id)) if job_id else None, BatchId(UUID(batch_id)) if batch_id else None
    )


_BUILD: Mapping[str, Build] = MappingProxyType(
    {
        errors.InvalidInput.reason: lambda told: errors.InvalidInput(told.violations),
        errors.UnknownJobType.reason: lambda told: errors.UnknownJobType(told.metadata["job_type"]),
        errors.InvalidPageToken.reason: lambda _: errors.InvalidPageToken(),
        errors.PayloadTooLarge.reason: lambda told: errors.PayloadTooLarge(
            told.metadata["field"], int(told.metadata["limit_bytes"]), int(told.metadata["actual_bytes"])
        ),
        errors.TooManyJobs.reason: lambda told: errors.TooManyJobs(int(told.metadata["limit"])),
        errors.QuotaExceeded.reason: lambda told: errors.QuotaExceeded(
            told.metadata["quota"], told.retry_after or timedelta(0)
        ),
        errors.PlatformUnavailable.reason: lambda told: errors.PlatformUnavailable(
            cast("errors.Platform", told.metadata["what"])
        ),
        errors.Unauthenticated.reason: lambda _: errors.Unauthenticated(),
        errors.PermissionDenied.reason: lambda told: errors.PermissionDenied(told.metadata.get("scope")),
        errors.JobNotFound.reason: _about_job(errors.JobNotFound),
        errors.JobNotCancellable.reason: _about_job(errors.JobNotCancellable),
        errors.JobAlreadyCancelled.reason: _about_job(errors.JobAlreadyCancelled),
        errors.JobNotRetryable.reason: _about_job(errors.JobNotRetryable),
        errors.LeaseLost.reason: _about_job(errors.LeaseLost),
        errors.IdempotencyKeyReused.reason: _key_reused,
        errors.BatchNotFound.reason: _about_batch(errors.BatchNotFound),
        errors.BatchStateConflict.reason: _about_batch(errors.BatchStateConflict),
    }
)


def failure_of(error: grpc.RpcError) -> BatonError | CallFailed:
    """Turn gRPC's error into the engine's, by its reason; into `CallFailed` if it has none that is known."""
    message = error.details() or ""
    told = details_of(error)
    try:
        failure = _BUILD[told.reason](told)
    except (KeyError, ValueError):  # a newer service: a reason of its own, or metadata of another shape
        return CallFailed(error.code().name, message)
    # The service knows more than the class does, for example why a job can't be cancelled.
    failure.message = message
    failure.args = (message,)
    return failure


def details_of(error: grpc.RpcError) -> Details:
    """Read the details that an error of the engine carries; those of any other are empty."""
    reason, metadata = "", dict[str, str]()
    violations: list[FieldViolation] = []
    retry_after: timedelta | None = None
    for detail in _unpacked(error):
        match detail:
            case error_details_pb2.ErrorInfo(domain=domain) if domain == DOMAIN:
                reason, metadata = detail.reason, dict(detail.metadata)
            case error_details_pb2.BadRequest():
                violations += [FieldViolation(v.field, v.description) for v in detail.field_violations]
            case error_details_pb2.RetryInfo():
                retry_after = detail.retry_delay.ToTimedelta()
            case _:
                pass
    return Details(reason, metadata, violations, retry_after)


def _unpacked(error: grpc.RpcError) -> Sequence[Any]:
    kinds = (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo)
    try:
        status: status_pb2.Status | None = rpc_status.from_call(cast("grpc.Call", error))
        packed = status.details if status is not None else ()
        return [kind.FromString(each.value) for each in packed for kind in kinds if each.Is(kind.DESCRIPTOR)]
    except (ValueError, DecodeError):  # details that contradict the status, or are none
        return ()
