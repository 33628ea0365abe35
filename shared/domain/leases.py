"""Leases: the right to run one attempt of one job.

Postgres is authoritative, and a lease stands until the reaper, a report or a newer session ends it there.
Safety rests on the token: each message about an attempt carries it, and the statement that writes has it in
its WHERE, so whoever holds an old token changes nothing, whatever it believes. Clocks only say when the
reaper looks: it ends a lease after one and a half lease times without a heartbeat, by the database's clock,
and never counts time in which the services themselves were silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from shared.domain.identity import IncarnationId, JobId, JobType, LeaseToken, QueueName, SessionId, UploadId
from shared.domain.jobs import JobError

SILENCE_FACTOR = 1.5
"""A lease ends after this many lease times without a heartbeat: one and a half gives a late one a chance."""

PULSE_INTERVAL = timedelta(seconds=1)
"""The services write so often that they live; without that nobody's silence counts."""

PULSE_TOLERANCE = 3 * PULSE_INTERVAL
"""Two pulses may be late. A longer gap is the services' own silence: leases get that time back with the next
pulse, and until then the reaper ends nothing."""

HEARTBEATS_PER_LEASE = 3
"""Heartbeats come so often in a lease time that two may be lost without harm."""


@dataclass(frozen=True, slots=True)
class LeaseRef:
    """Names one lease of one job."""

    job_id: JobId
    token: LeaseToken


def make_token(attempt: int, secret: str) -> LeaseToken:
    """Build a token from the attempt's number, which is its epoch, and 128 random bits of base64url."""
    return LeaseToken(f"{attempt}.{secret}")


def token_epoch(token: LeaseToken) -> int | None:
    """Read the attempt's number out of a token; None if it is not a token at all."""
    epoch, _, secret = token.partition(".")
    return int(epoch) if secret and epoch.isascii() and epoch.isdigit() and len(epoch) <= 9 else None  # noqa: PLR2004


@dataclass(frozen=True, slots=True)
class Document:
    """An uploaded document that an input refers to."""

    upload_id: UploadId
    document_bytes: int
    sha256: str
    media_type: str
    file_name: str


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long things take under a definition's leases.

    Attributes:
        duration: The lease time.
        timeout: The longest run of the handler.
        grace: How long the handler may ignore its end or a cancel.
    """

    duration: timedelta
    timeout: timedelta
    grace: timedelta


@dataclass(frozen=True, slots=True)
class TypeLimits:
    """How many leases a job type may have; None means no limit.

    Attributes:
        at_once: Leases in all.
        at_once_per_owner: Leases of one owner.
        per_second: Leases granted in a second; after a quiet time one second's worth, at least one, at once.
    """

    job_type: JobType
    at_once: int | None = None
    at_once_per_owner: int | None = None
    per_second: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A session's wish for one attempt that a stream entry pointed at.

    Attributes:
        limits: Of the attempt's job type; None if it has none.
    """

    job_id: JobId
    attempt: int
    token: LeaseToken
    session_id: SessionId
    incarnation_id: IncarnationId
    executor_name: str
    terms: LeaseTerms
    limits: TypeLimits | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that was just granted, with what its executor needs.

    Attributes:
        input: JSON text; empty if it is over the inline limit or there is a document.
        last_error: Of the last attempt that ended without success.
    """

    ref: LeaseRef
    session_id: SessionId
    attempt: int
    job_type: JobType
    queue: QueueName
    priority: int
    input_schema_version: int
    output_schema_version: int
    input: bytes
    input_bytes: int
    document: Document | None
    traceparent: str
    last_error: JobError | None
    run_alone: bool
    credential_mode: str
    credential_id: str
    prompt_version: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life; progress in per cent, None leaves it as it was."""

    ref: LeaseRef
    progress: int | None = None
    progress_message: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatOutcome:
    """What a batch of heartbeats met; each list in no order, without repeats.

    Attributes:
        lost: Leases that have ended.
        cancels: Leases whose job is to be cancelled and whose executor has not said that it knows.
    """

    lost: Sequence[LeaseRef]
    cancels: Sequence[LeaseRef]
