"""Streams whose job types have limits: one that gives claims nothing is left alone for a moment.

What a limit refuses keeps its place in the database, and a dispatcher that is told of a higher limit, or of
none, hands it out again at once. Without a rest the two would go on like that until a lease ends. One claim
that gets nothing means little: two dispatchers have counted at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import timedelta

from job_worker.sessions.lease_plan import WantedStream
from shared.domain.identity import JobType, StreamName
from shared.domain.queues import job_type_of
from shared.runtime.clock import Clock

REST = timedelta(milliseconds=100)
"""As long as dispatchers take to see that a lease has ended."""


class LimitedStreams:
    """Known by one replica; each finds out by itself."""

    def __init__(self, job_types: Collection[JobType], clock: Clock, *, wake: asyncio.Event) -> None:
        """Begin; streams of other types than these never rest, and `wake` is set at the end of each rest."""
        self._job_types = frozenset(job_types)
        self._clock = clock
        self._wake = wake
        self._dry = set[StreamName]()
        self._rest_until = dict[StreamName, float]()

    def concern(self, stream: StreamName) -> bool:
        """Whether a stream's job type has limits."""
        return job_type_of(stream) in self._job_types

    def claimed(self, asked: Collection[StreamName], granted: Collection[StreamName]) -> None:
        """Note the streams of a claim's entries, and those of which it got a lease or more."""
        self._dry.difference_update(granted)
        refused = {each for each in asked if each not in granted and self.concern(each)}
        again = refused & self._dry
        self._dry |= refused
        if again:
            self._rest_until |= dict.fromkeys(again, self._clock.monotonic() + REST.total_seconds())
            asyncio.get_running_loop().call_later(REST.total_seconds(), self._wake.set)

    def ready(self, streams: Sequence[WantedStream]) -> list[WantedStream]:
        """Leave out those that are to be left alone now."""
        now = self._clock.monotonic()
        self._rest_until = {stream: until for stream, until in self._rest_until.items() if until > now}
        return [each for each in streams if each.name not in self._rest_until]
