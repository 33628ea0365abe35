"""Tells the dispatchers how many leases this replica's executors could take from each stream."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from datetime import timedelta

from job_worker.sessions.sessions import Sessions
from shared.domain.identity import StreamName
from shared.runtime.clock import Clock
from shared.streams.lease_streams import LeaseStreams

CLAIMED_FOR = timedelta(milliseconds=100)
"""What was claimed in this time counts as demand: a fast executor has no open credit most of the time."""
DEMAND_INTERVAL = timedelta(milliseconds=250)
"""How often demand is told, well below the time for which it counts."""


class Demand:
    """Open credits, and what was claimed just now; the dispatchers fill streams to a mark that follows it."""

    def __init__(self, sessions: Sessions, streams: LeaseStreams, *, replica: str, clock: Clock) -> None:
        self._sessions = sessions
        self._streams = streams
        self._replica = replica
        self._clock = clock
        self._claimed = deque[tuple[float, StreamName, int]]()
        self._told = frozenset[StreamName]()

    def claimed(self, leases: Mapping[StreamName, int]) -> None:
        now = self._clock.monotonic()
        self._claimed.extend((now, stream, count) for stream, count in leases.items())

    async def step(self) -> bool:
        """Tell the demand; streams that nobody serves any more are told once that they have none."""
        present = self._present()
        if present or self._told:
            await self._streams.tell_demand(self._replica, {**dict.fromkeys(self._told, 0), **present})
        self._told = frozenset(present)
        return False

    def _present(self) -> Mapping[StreamName, int]:
        demand = Counter[StreamName]()
        for session in self._sessions:
            for stream in session.streams:
                demand[stream.name] += session.open_credits(stream.queue)
        horizon = self._clock.monotonic() - CLAIMED_FOR.total_seconds()
        while self._claimed and self._claimed[0][0] < horizon:
            self._claimed.popleft()
        for _, stream_name, count in self._claimed:
            demand[stream_name] += count
        return demand
