"""What executors and the service say to each other in a session, one frame at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from job_worker.operations.claim_leases import GrantedLease
from job_worker.operations.reports import Report, ReportAnswer
from job_worker.operations.store_pieces import OutputPiece
from shared.domain.identity import QueueName
from shared.domain.leases import Heartbeat, LeaseRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorFrame:
    """A frame of an executor, checked field by field.

    Attributes:
        credits: Leases that it can take in addition.
        heartbeat_number: To be echoed once the heartbeats are durable; 0 says nothing.
        refused: Answers to reports that can be read, but never accepted.
    """

    credits: Sequence[tuple[QueueName, int]] = ()
    heartbeats: Sequence[Heartbeat] = ()
    heartbeat_number: int = 0
    pieces: Sequence[OutputPiece] = ()
    reports: Sequence[Report] = ()
    refused: Sequence[ReportAnswer] = ()
    cancels_seen: Sequence[LeaseRef] = ()
    goodbye: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFrame:
    """A frame of the service: all that waited for the executor, as far as it fits.

    Attributes:
        heartbeats_recorded: All heartbeats up to this number are durable; 0 says nothing.
        pieces_recorded: All pieces of a lease up to the number are durable.
        drain: Go elsewhere; how long this session still answers.
    """

    leases: Sequence[GrantedLease]
    heartbeats_recorded: int
    lost: Sequence[LeaseRef]
    cancels: Sequence[LeaseRef]
    answers: Sequence[ReportAnswer]
    pieces_recorded: Mapping[LeaseRef, int]
    drain: timedelta | None
