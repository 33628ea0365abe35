"""Watches of the feed of events in memory: how far each has come, and what waits to be sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from job_api.operations.watching import EndReason, KeepAlive
from shared.domain.errors import BatonError
from shared.storage.event_feed import FeedEvent

__all__ = [
    "EndReason",
    "EventSubscription",
    "FeedEvent",
    "FeedReader",
    "FeedUpdate",
    "KeepAlive",
    "SentEvent",
]

ROOM_MIN = 64
"""So many events may wait for a watcher; while more do, nothing is handed to it."""

FeedUpdate = FeedEvent | KeepAlive | EndReason


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An update, and the number of the feed up to which the watcher has seen everything with it."""

    update: FeedUpdate
    number: int


class EventSubscription:
    """One watch: the reader of the feed puts in, one stream takes out; all in one event loop.

    Attributes:
        position: Events up to this number were handed over, or are of other types; 0 before the oldest.
        full_since: When it was first found without room; None while it has some.
    """

    def __init__(self, position: int, event_types: frozenset[str]) -> None:
        self.position = position
        self.full_since: float | None = None
        self._event_types = event_types
        self._sent = position
        self._waiting: deque[FeedEvent] = deque()
        self._end: EndReason | BatonError | None = None
        self._stirred = asyncio.Event()

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < ROOM_MIN

    @property
    def ended(self) -> bool:
        return self._end is not None

    def put(self, events: Iterable[FeedEvent], *, through: int) -> None:
        """Let events behind the position wait, by number, and move on to where they were read to."""
        if self.ended:
            return
        self._waiting.extend(each for each in events if each.number > self.position and self._wants(each))
        self.position = max(self.position, through)
        if self._waiting:
            self._stirred.set()

    def end(self, why: EndReason | BatonError) -> None:
        """End the watch at once; what waits is for the next one. The first end counts."""
        if self._end is None:
            self._end = why
            self._waiting.clear()
            self._stirred.set()

    async def take(self, *, keep_alive_seconds: float) -> SentEvent:
        """Wait for the next update; after `EndReason` there is none.

        Raises:
            BatonError: What the watch ended with.
        """
        try:
            async with asyncio.timeout(keep_alive_seconds):
                while not (self._waiting or self._end):
                    self._stirred.clear()
                    await self._stirred.wait()
        except TimeoutError:
            self._sent = self.position  # nothing waits, so what was passed over is seen
            return SentEvent(KeepAlive(), self._sent)
        if self._waiting:
            event = self._waiting.popleft()
            self._sent = event.number
            return SentEvent(event, self._sent)
        if isinstance(self._end, BatonError):
            raise self._end
        return SentEvent(self._end or KeepAlive(), self._sent)

    def _wants(self, event: FeedEvent) -> bool:
        return not self._event_types or event.event_type in self._event_types


class FeedReader(Protocol):
    """Reads the feed for all watches together."""

    def join(self, subscription: EventSubscription) -> None:
        """Read for a watch from its position on."""
        ...

    def leave(self, subscription: EventSubscription) -> None:
        """Read no more for a watch; nothing happens if it has left."""
        ...

    def stir(self) -> None:
        """Hear that a watch has room again."""
        ...
