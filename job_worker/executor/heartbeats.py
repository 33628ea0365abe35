"""Says of all held leases, in time, that they are worked on, and notices when nobody hears it.

A stream proves nothing: its other end may be stopped, or the way to it may swallow what is sent. What proves
that the service hears is that it records heartbeats, which it does about once a second. So a heartbeat that
is unanswered for most of an interval is silence, and another session is tried. From the last heartbeat that
came through, that is within two intervals; leases stand for more than as long again, time for more attempts.

A slow database is silent too, and must not be asked more because it is slow:

- the silent session is left only for one that was welcomed, so nothing is lost by trying in vain;
- after an attempt the patience begins anew, and is longer, so that an executor never says hello more often
  than it sends heartbeats, and a heartbeat that is recorded meanwhile ends the matter;
- how patient an executor is, is drawn by lot each time, so that those that began together come apart.

Without leases there are no heartbeats: then gRPC's pings notice, in about the same time (see
`shared/rpc/channel.py`).
"""

from __future__ import annotations

import asyncio
import random
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
_PATIENCE = (0.6, 0.9)
"""The share of an interval after which an unanswered heartbeat is silence is drawn from between these. Six
seconds of the ten that ship are more than gathering heartbeats and the longest statement take together."""
_PATIENCE_AGAIN = (1.0, 1.5)
"""The same after an attempt to find a better session, until something is recorded."""
_ANSWER_SECONDS = 2.5
"""However short the interval, an answer may take this long: services gather heartbeats for a second."""


class Heartbeats:
    """One frame for all leases every shortest interval; progress sooner, but gathered.

    Attributes:
        silence: Set while the service leaves heartbeats unanswered for longer than it should.
    """

    def __init__(self, *, book: LeaseBook, outgoing: Outgoing, pool: HandlerPool, clock: Clock) -> None:
        self._book = book
        self._outgoing = outgoing
        self._pool = pool
        self._clock = clock
        self._progressed: dict[int, HeldLease] = {}
        self._last_time = float("-inf")
        self._unrecorded: deque[tuple[int, float]] = deque()
        self.silence = asyncio.Event()
        self._be_patient(_PATIENCE)

    def progressed(self, held: HeldLease) -> None:
        """Send this lease's progress with the next step."""
        self._progressed[held.number] = held

    def connected(self) -> None:
        """Begin anew, with a heartbeat of every lease at once."""
        self._unrecorded.clear()
        self._be_patient(_PATIENCE_AGAIN if self.silence.is_set() else _PATIENCE)
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
            self._be_patient(_PATIENCE)

    def be_patient_again(self) -> None:
        """Count the silence from now on: no better session was to be had."""
        self._be_patient(_PATIENCE_AGAIN)

    def _be_patient(self, shares: tuple[float, float]) -> None:
        self._patient_since = self._clock.monotonic()
        self._patience = random.uniform(*shares)
        self.silence.clear()

    async def step(self) -> bool:
        """Send what is due."""
        interval = min((held.heartbeat_seconds for held in self._book), default=None)
        if interval is None:
            self._be_patient(_PATIENCE)
            return False
        now = self._clock.monotonic()
        self._listen(interval, now)
        if now - self._last_time >= interval * _EARLY:
            self._send_all()
        else:
            for held in self._progressed.values():
                if held in self._book and held.report is None:
                    self._outgoing.heartbeat(held.heartbeat())
        self._progressed.clear()
        return False

    def _listen(self, interval: float, now: float) -> None:
        if not self._unrecorded:
            return
        _, oldest_time = self._unrecorded[0]
        if now - oldest_time > interval * _UNRECORDED_INTERVALS_MAX:
            self._pool.tell_uncertain(True)
        if now - max(oldest_time, self._patient_since) > max(interval, _ANSWER_SECONDS) * self._patience:
            self.silence.set()

    def _send_all(self) -> None:
        self._last_time = self._clock.monotonic()
        for held in self._book:
            self._outgoing.heartbeat(held.heartbeat())
        if len(self._book):
            self._unrecorded.append((self._outgoing.heartbeat_number + 1, self._last_time))
