"""How errors look on the wire: one table, and the details that each carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from shared.domain import errors

DOMAIN = "baton"

STATUS_OF: Mapping[type[errors.BatonError], grpc.StatusCode] = MappingProxyType(
    {
        errors.InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
        errors.UnknownJobType: grpc.StatusCode.INVALID_ARGUMENT,
        errors.InvalidPageToken: grpc.StatusCode.INVALID_ARGUMENT,
        errors.PayloadTooLarge: grpc.StatusCode.INVALID_ARGUMENT,
        errors.JobNotFound: grpc.StatusCode.NOT_FOUND,
        errors.BatchNotFound: grpc.StatusCode.NOT_FOUND,
        errors.JobNotCancellable: grpc.StatusCode.FAILED_PRECONDITION,
        errors.JobAlreadyCancelled: grpc.StatusCode.FAILED_PRECONDITION,
        errors.JobNotRetryable: grpc.StatusCode.FAILED_PRECONDITION,
        errors.BatchStateConflict: grpc.StatusCode.FAILED_PRECONDITION,
        errors.LeaseLost: grpc.StatusCode.FAILED_PRECONDITION,
        errors.IdempotencyKeyReused: grpc.StatusCode.ALREADY_EXISTS,
        errors.TooManyJobs: grpc.StatusCode.RESOURCE_EXHAUSTED,
        errors.QuotaExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
        errors.PlatformUnavailable: grpc.StatusCode.UNAVAILABLE,
        errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
        errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    }
)
"""`IllegalTransition` is not here on purpose: one that reaches a caller is a bug."""

# A status travels in HTTP/2 trailers, where peers accept 8 KiB by default; a longer one would reach the
# caller as another error. The details are base64 there, and the message is sent twice.
_MESSAGE_CHARACTERS_MAX = 200
_METADATA_CHARACTERS_MAX = 200
_VIOLATIONS_BYTES_MAX = 2048

_PLATFORM_RETRY_AFTER = timedelta(seconds=1)
"""Long enough for a failover to be noticed, short enough for a person who waits."""


def code_of(error: BaseException) -> grpc.StatusCode | None:
    """Look up an error's status by its class or the nearest ancestor's; None for a bug."""
    return next((STATUS_OF[each] for each in type(error).__mro__ if each in STATUS_OF), None)


def rich_status(error: errors.BatonError) -> status_pb2.Status:
    """Render an error of the table with its details, small enough for the trailers.

    Raises:
        KeyError: The error is not in the table.
    """
    code = code_of(error)
    if code is None:
        raise KeyError(type(error).__name__)
    number: int = code.value[0]
    return status_pb2.Status(
        code=number, message=_short(error.message, _MESSAGE_CHARACTERS_MAX), details=_packed(details(error))
    )


def details(error: errors.BatonError) -> Sequence[Message]:
    """What a program can use besides the status: `ErrorInfo` first, always, then what helps."""
    return [_error_info(error), *_more(error)]


def _error_info(error: errors.BatonError) -> error_details_pb2.ErrorInfo:
    metadata = {name: _short(value, _METADATA_CHARACTERS_MAX) for name, value in error.metadata.items()}
    return error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)


def _more(error: errors.BatonError) -> Iterator[Message]:
    match error:
        case errors.InvalidInput():
            yield _bad_request((each.field, each.description) for each in error.violations)
        case errors.PayloadTooLarge():
            yield _bad_request([(error.field, f"at most {error.limit_bytes} bytes")])
        case errors.InvalidPageToken():
            yield _bad_request([("page_token", error.message)])
        case errors.TooManyJobs():
            yield _quota_failure("active_jobs", error.message)
        case errors.QuotaExceeded():
            yield _quota_failure(error.quota, error.message)
            yield _retry_info(error.retry_after)
        case errors.PlatformUnavailable():
            yield _retry_info(_PLATFORM_RETRY_AFTER)
        case _ if code_of(error) is grpc.StatusCode.FAILED_PRECONDITION:
            yield _precondition_failure(error)


def _bad_request(violations: Iterable[tuple[str, str]]) -> error_details_pb2.BadRequest:
    """As many violations as fit, at least one; the others come to light when these are mended."""
    bad_request = error_details_pb2.BadRequest()
    for field, description in violations:
        bad_request.field_violations.add(
            field=_short(field, _METADATA_CHARACTERS_MAX),
            description=_short(description, _METADATA_CHARACTERS_MAX),
        )
        if bad_request.ByteSize() > _VIOLATIONS_BYTES_MAX:
            break
    return bad_request


def _quota_failure(subject: str, description: str) -> error_details_pb2.QuotaFailure:
    violation = error_details_pb2.QuotaFailure.Violation(
        subject=_short(subject, _METADATA_CHARACTERS_MAX),
        description=_short(description, _MESSAGE_CHARACTERS_MAX),
    )
    return error_details_pb2.QuotaFailure(violations=[violation])


def _retry_info(delay: timedelta) -> error_details_pb2.RetryInfo:
    duration = duration_pb2.Duration()
    duration.FromTimedelta(delay)
    return error_details_pb2.RetryInfo(retry_delay=duration)


def _precondition_failure(error: errors.BatonError) -> error_details_pb2.PreconditionFailure:
    violation = error_details_pb2.PreconditionFailure.Violation(
        type=error.reason,
        subject=_short(", ".join(error.metadata.values()), _METADATA_CHARACTERS_MAX),
        description=_short(error.message, _MESSAGE_CHARACTERS_MAX),
    )
    return error_details_pb2.PreconditionFailure(violations=[violation])


def _packed(messages: Iterable[Message]) -> Iterator[any_pb2.Any]:
    for message in messages:
        packed = any_pb2.Any()
        packed.Pack(message)
        yield packed


def _short(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"
