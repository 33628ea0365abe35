"""What was seen from time to time while a run went on, and what was searched for planted secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from verification.evidence.batches import BatchMoment


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at Redis and at the backlog, a moment apart.

    Attributes:
        time: As in the history.
        waiting: Attempts that wait for an executor, by the database.
        memory_bytes: All that Redis uses.
        entries: In each lease stream, by its key.
        demand: Leases that executors could take then, all streams together.
    """

    time: float
    waiting: int
    memory_bytes: int
    entries: Mapping[str, int]
    demand: int


@dataclass(frozen=True, slots=True)
class Search:
    """One place that was searched for planted secrets.

    Attributes:
        place: For people: a log, a Redis key, the outbox.
        found: The lines or values that hold one, cut short.
    """

    place: str
    found: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Backlog:
    """Jobs of one type that all waited before the first of them could start.

    Attributes:
        job_ids: In the order of their creation.
        slack: By how many places the order of starts may differ from the order of turns: what was at the head
            before the last was created, and what executors take at a time.
    """

    job_ids: Sequence[str]
    slack: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Jobs that were due while executors had room for them.

    Attributes:
        after: What had been done to them, for people.
        seconds: Until all of them had started, or until nobody waited any longer.
        seconds_max: How long that may take.
    """

    after: str
    seconds: float
    seconds_max: float


@dataclass(slots=True)
class Samples:
    """Grows while a run goes on."""

    samples: list[Sample] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)
    backlogs: list[Backlog] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    batches: list[BatchMoment] = field(default_factory=list)
