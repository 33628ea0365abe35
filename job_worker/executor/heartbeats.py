"""Says of all held leases, in time, that they are worked on, and notices when nobody hears it."""

from __future__ import annotations

from collections import deque

import structlog

from job_worker.executor.handler_pool import HandlerPool
from job_worker.executor.held_lease import HeldLease, LeaseBook
from job_worker.executor.outgoing import Outgoing
from shared.runtime.clock import Clock

log = structlog.get_logger(__name__)

_EARLY = 0.9
"""Heartbeats come a little before they are due, since steps come at their own pace."""
_UNRECORDED_INTERVALS_MAX = 2
"""Heartbeats that are not recorded after so many intervals make the leases uncertain."""


class Heartbeats:
    """One frame for all leases every shortest interval; progress sooner, but gathered."""

    def __init__(self, *, book: LeaseBook, outgoing: Outgoing, pool: HandlerPool, clock: Clock) -> None:
        self._book = book
        self._outgoing = outgoing
        self._pool = pool
        self._clock = clock
        self._progressed: dict[int, HeldLease] = {}
        self._last_time = float("-inf")
        self._unrecorded: deque[tuple[int, float]] = deque()

    def progressed(self, held: HeldLease) -> None:
        """Send this lease's progress with the next step."""
        self._progressed[held.number] = held

    def connected(self) -> None:
        """Begin anew, with a heartbeat of every lease at once."""
        self._unrecorded.clear()
        self._send_all()
        if not len(self._book):
            self._pool.tell_uncertain(False)

    def disconnected(self) -> None:
        self._pool.tell_uncertain(True)

    def recorded(self, number: int) -> None:
        """Take in that the heartbeats up to this number are durable."""
        while self._unrecorded and self._unrecorded[0][0] <= number:
            self._unrecorded.popleft()
            self._pool.tell_uncertain(False)

    async def step(self) -> bool:
        """Send what is due."""
        interval = min((held.heartbeat_seconds for held in self._book), default=None)
        if interval is None:
            return False
        now = self._clock.monotonic()
        if self._unrecorded and now - self._unrecorded[0][1] > interval * _UNRECORDED_INTERVALS_MAX:
            self._pool.tell_uncertain(True)
        if now - self._last_time >= interval * _EARLY:
            self._send_all()
        else:
            for held in self._progressed.values():
                if held in self._book and held.report is None:
                    self._outgoing.heartbeat(held.heartbeat())
        self._progressed.clear()
        return False

    def _send_all(self) -> None:
        self._last_time = self._clock.monotonic()
        for held in self._book:
            self._outgoing.heartbeat(held.heartbeat())
        if len(self._book):
            self._unrecorded.append((self._outgoing.heartbeat_number + 1, self._last_time))
