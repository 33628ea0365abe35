"""What errors must look like: status, reason, domain, and the fields at fault."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, PreconditionFailure

from verification.peers.control import Refused
from verification.unmet import Unmet, require

DOMAIN = "baton"

_STATUS_OF = {
    **dict.fromkeys(
        ("INVALID_INPUT", "UNKNOWN_JOB_TYPE", "INVALID_PAGE_TOKEN", "PAYLOAD_TOO_LARGE"), "INVALID_ARGUMENT"
    ),
    **dict.fromkeys(("JOB_NOT_FOUND", "BATCH_NOT_FOUND"), "NOT_FOUND"),
    **dict.fromkeys(
        (
            "JOB_NOT_CANCELLABLE",
            "JOB_ALREADY_CANCELLED",
            "JOB_NOT_RETRYABLE",
            "BATCH_STATE_CONFLICT",
            "LEASE_LOST",
        ),
        "FAILED_PRECONDITION",
    ),
    "IDEMPOTENCY_KEY_REUSED": "ALREADY_EXISTS",
    **dict.fromkeys(("TOO_MANY_JOBS", "QUOTA_EXCEEDED"), "RESOURCE_EXHAUSTED"),
    "PLATFORM_UNAVAILABLE": "UNAVAILABLE",
    "UNAUTHENTICATED": "UNAUTHENTICATED",
    "PERMISSION_DENIED": "PERMISSION_DENIED",
}
"""The protocol's reasons, each with the one status that it comes with."""


async def refused(call: Awaitable[object], reason: str, *fields: str, when: str = "") -> Refused:
    """Require that a call is refused for this reason, in the form that is promised, and return the error.

    Args:
        fields: Paths that `BadRequest` must name, among others that it may.
        when: What was asked, for the error.
    """
    asked = f" ({when})" if when else ""
    try:
        await call
    except Refused as error:
        require_well_formed(error, when=when)
        require(error.reason == reason, f"expected {reason}, got {error}{asked}")
        named = fields_of(error)
        missing = [each for each in fields if each not in named]
        require(not missing, f"BadRequest names {named} and not {missing}{asked}")
        return error
    raise Unmet(f"expected {reason}, and the call was answered{asked}")


def require_well_formed(error: Refused, *, when: str = "") -> None:
    """Require that an error has what every error of the engine has."""
    asked = f" ({when})" if when else ""
    info = detail(error, ErrorInfo)
    require(info is not None, f"there is no ErrorInfo beside {error}{asked}")
    assert info is not None
    require(info.domain == DOMAIN, f"the domain of ErrorInfo is {info.domain!r}{asked}")
    require(info.reason in _STATUS_OF, f"the reason {info.reason!r} is none of the protocol{asked}")
    require(_STATUS_OF[info.reason] == error.status, f"{info.reason} came with {error.status}{asked}")
    number = grpc.StatusCode[error.status].value[0]
    require(error.details.code == number, f"google.rpc.Status has code {error.details.code}{asked}")


def fields_of(error: Refused) -> Sequence[str]:
    """The paths that `BadRequest` names; empty without one."""
    bad = detail(error, BadRequest)
    return [] if bad is None else [each.field for each in bad.field_violations]


def names_precondition(error: Refused) -> bool:
    """Whether `PreconditionFailure` names the reason too."""
    failure = detail(error, PreconditionFailure)
    return failure is not None and error.reason in {each.type for each in failure.violations}


def detail(error: Refused, kind: type[Message]) -> Any:
    """The error's first detail of a kind; None without one."""
    for each in error.details.details:
        found = kind()
        if each.Unpack(found):
            return found
    return None
