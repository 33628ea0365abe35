"""How executors say that an attempt ended, and what they are answered."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias

from shared.domain.jobs import JobError
from shared.domain.leases import LeaseRef


@dataclass(frozen=True, slots=True)
class Success:
    """The handler made an output.

    Attributes:
        output: JSON text.
        output_hash: SHA-256 over its canonical form, in hex.
        piece_count: So many pieces were streamed before.
        pieces_hash: SHA-256 over the pieces' contents in order, in hex; empty without pieces.
    """

    output: bytes
    output_hash: str
    piece_count: int = 0
    pieces_hash: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """The handler failed, or ran out of time.

    Attributes:
        retry_after: What the provider asked for.
        permanent: The executor knows that trying again can't help.
    """

    error: JobError
    retry_after: timedelta | None = None
    permanent: bool = False


class GiveBackReason(StrEnum):
    """Why a lease goes back."""

    DRAINING = "draining"
    REFUSED = "refused"
    PROCESS_DIED = "process_died"
    NEIGHBOUR_KILLED = "neighbour_killed"
    NOT_STARTED = "not_started"
    UNDELIVERED = "undelivered"
    """The service itself could not hand the lease over: the session ended first."""


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The attempt was not run, or not to its end; `alone` says that nothing else died with its process."""

    reason: GiveBackReason
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """The handler stopped because a cancel was asked for; `killed` if it had to be made to."""

    killed: bool = False


End: TypeAlias = Success | Failure | GiveBack | Stopped


@dataclass(frozen=True, slots=True)
class Report:
    """The end of an attempt, as its executor saw it."""

    lease: LeaseRef
    end: End
    content_hash: str = field(init=False)
    """SHA-256 over all that is reported, so that the same report is known when it comes again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "content_hash", _content_hash(self.end))

    @property
    def weight(self) -> int:
        """About how many bytes it keeps in memory."""
        return len(self.end.output) if isinstance(self.end, Success) else 0


class ReportOutcome(StrEnum):
    """What became durable of a report. The names are stored with the attempt."""

    ACCEPTED = "ACCEPTED"
    CANCELLED_INSTEAD = "CANCELLED_INSTEAD"
    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    LEASE_LOST = "LEASE_LOST"
    REFUSED = "REFUSED"


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """The answer to a report; reason and message of a refusal are an error code and a sentence."""

    lease: LeaseRef
    outcome: ReportOutcome
    reason: str = ""
    message: str = ""


def _content_hash(end: End) -> str:
    if not isinstance(end, Success):
        return hashlib.sha256(repr(end).encode()).hexdigest()
    beside = (len(end.output), end.output_hash, end.piece_count, end.pieces_hash)
    content = hashlib.sha256(repr(beside).encode())
    content.update(end.output)
    return content.hexdigest()
