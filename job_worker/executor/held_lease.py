"""The leases that this executor holds, from their arrival until their end is answered."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from shared.domain.identity import QueueName
from shared.gen.baton.v1.execution_service_pb2 import Heartbeat, Lease, LeaseRef, OutputPiece, Report

LeaseKey = tuple[str, str]
"""Job id and token, as they came."""


class Link(Protocol):
    """The handler process that an attempt is inside."""

    @property
    def inside(self) -> Mapping[int, HeldLease]: ...

    def stop(self, held: HeldLease) -> None: ...

    def pieces_stored(self, held: HeldLease, piece_number: int) -> None: ...

    def kill(self) -> None: ...


class StopReason(Enum):
    """Why a handler was told to stop."""

    CANCEL = auto()
    TIMEOUT = auto()
    DRAINING = auto()
    LOST = auto()


@dataclass(slots=True, eq=False)
class HeldLease:
    """One lease.

    Attributes:
        number: Names the attempt between keeper and handler processes.
        end_time: When the handler's time is up, by the event loop's clock.
        link: The process that it is inside; None before and after.
        stop: Why its handler was told to stop, if it was.
        cancelled: Whether the service pushed a cancel; each session hears that it was seen.
        report: Its end, sent again until it is answered.
        pieces: Those that the service has not stored yet.
        alarm: Ends the handler's time, and after that its grace.
    """

    number: int
    lease: Lease
    ref: LeaseRef
    end_time: float
    document: bytes = b""
    link: Link | None = None
    stop: StopReason | None = None
    cancelled: bool = False
    report: Report | None = None
    progress: tuple[int, str] | None = None
    pieces: deque[OutputPiece] = field(default_factory=deque)
    alarm: asyncio.TimerHandle | None = None
    fetching: asyncio.Task[None] | None = None

    @property
    def key(self) -> LeaseKey:
        return self.ref.job_id, self.ref.token

    @property
    def grace_seconds(self) -> float:
        return self.lease.grace.ToTimedelta().total_seconds()

    @property
    def heartbeat_seconds(self) -> float:
        return self.lease.heartbeat_interval.ToTimedelta().total_seconds()

    @property
    def grace_is_over(self) -> bool:
        """Whether, once told to stop, it has been given all the time to do so."""
        return self.alarm is None or self.alarm.when() <= asyncio.get_running_loop().time()

    def heartbeat(self) -> Heartbeat:
        """A sign of life, with the latest progress if there is any."""
        if self.progress is None:
            return Heartbeat(lease=self.ref)
        percent, message = self.progress
        return Heartbeat(lease=self.ref, progress=percent, progress_message=message)

    def set_alarm(self, alarm: asyncio.TimerHandle | None) -> None:
        """Put another alarm in the place of the one that is set."""
        if self.alarm is not None:
            self.alarm.cancel()
        self.alarm = alarm


class LeaseBook:
    """All leases that are held: by name, as the service speaks of them, and counted by queue.

    A lease takes room until its handler has ended: the next one need not wait until the service has made the
    end durable. But while the service is slow, ends pile up: those that are unanswered take room too, beyond
    as many as handlers run at a time.
    """

    def __init__(self, room: Mapping[QueueName, int]) -> None:
        """Begin with no leases; `room` is how many of each queue run at a time."""
        self._room = room
        self._held: dict[LeaseKey, HeldLease] = {}
        self._running: Counter[str] = Counter()
        self._unanswered: Counter[str] = Counter()
        self._credits: Counter[str] = Counter()
        self._last_number = 0
        self.emptied = asyncio.Event()
        self.emptied.set()

    def __iter__(self) -> Iterator[HeldLease]:
        return iter(list(self._held.values()))

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, held: HeldLease) -> bool:
        return self._held.get(held.key) is held

    def next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def get(self, ref: Lease | LeaseRef) -> HeldLease | None:
        return self._held.get((ref.job_id, ref.token))

    def add(self, held: HeldLease) -> None:
        """Take in a lease, which uses a credit."""
        self._held[held.key] = held
        self._running[held.lease.queue] += 1
        self._credits[held.lease.queue] -= 1
        self.emptied.clear()

    def end(self, held: HeldLease, report: Report) -> None:
        """Note how a lease in the book ended."""
        held.report = report
        self._running[held.lease.queue] -= 1
        self._unanswered[held.lease.queue] += 1

    def remove(self, ref: LeaseRef) -> HeldLease | None:
        """Take a lease out, and return it; None if it is not there."""
        held = self._held.pop((ref.job_id, ref.token), None)
        if held is not None:
            counted = self._running if held.report is None else self._unanswered
            counted[held.lease.queue] -= 1
        if not self._held:
            self.emptied.set()
        return held

    def new_credits(self) -> Mapping[QueueName, int]:
        """Give credits for the room that has come about in each queue; they count as given from now on."""
        new = {
            queue: count
            for queue, room in self._room.items()
            if (count := room - self._taken(queue) - self._credits[queue]) > 0
        }
        self._credits.update(new)
        return new

    def forget_credits(self) -> None:
        """Begin anew: a new session starts without any."""
        self._credits.clear()

    def _taken(self, queue: QueueName) -> int:
        return self._running[queue] + max(0, self._unanswered[queue] - self._room[queue])

    def unreported(self) -> Iterable[HeldLease]:
        """Return the leases whose end has not been told."""
        return [held for held in self._held.values() if held.report is None]
