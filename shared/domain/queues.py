"""Queues, priorities, and the streams that carry their work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from shared.domain.identity import JobType, QueueName, StreamName
from shared.domain.retries import Backoff

PRIORITY_MAX = 100
BAND_STARTS = (0, 10, 40, 70)
"""Each priority band begins here; within a stream, that is within a band, owners take turns."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Where jobs wait, and what its job types get where they are silent.

    Attributes:
        group: Executors may be started for all queues of a group; empty if it is in none.
        at_once: Leases that one executor takes at a time.
        lease_duration: Heartbeats come every third of it.
        max_retries: Tries after the first.
    """

    name: QueueName
    group: str
    at_once: int
    lease_duration: timedelta
    max_retries: int
    backoff: Backoff


def band(priority: int) -> int:
    """Return the index of the band that a priority of 0 to 100 is in; 0 is the most urgent."""
    return sum(priority >= start for start in BAND_STARTS) - 1


@dataclass(frozen=True, slots=True)
class StreamKey:
    """What all entries of one lease stream have in common."""

    queue: QueueName
    job_type: JobType
    input_schema_version: int
    output_schema_version: int
    band: int

    @property
    def name(self) -> StreamName:
        """The name, without the deployment's key prefix. Queue and job type hold no colon."""
        versions = f"{self.input_schema_version}.{self.output_schema_version}"
        return StreamName(f"{self.queue}:{self.job_type}:{versions}:{self.band}")


def queue_of(stream: StreamName) -> QueueName:
    """Return the queue that a lease stream belongs to."""
    return QueueName(stream.partition(":")[0])


def more_urgent(stream: StreamName) -> Sequence[StreamName]:
    """Return the streams that carry the same in more urgent bands, most urgent first."""
    key, _, own = stream.rpartition(":")
    return [StreamName(f"{key}:{each}") for each in range(int(own))]


def job_type_of(stream: StreamName) -> JobType:
    """Return the job type that a lease stream carries."""
    return JobType(stream.partition(":")[2].partition(":")[0])


def band_of(stream: StreamName) -> int:
    """Return the index of the priority band that a lease stream carries."""
    return int(stream.rpartition(":")[2])
