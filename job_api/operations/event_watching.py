"""Watches of the feed of events in memory: how far each has come, and what waits to be sent."""

from __future__ import annotations

from collections.abc import Iterable

from job_api.operations.subscriptions import EndReason, KeepAlive, Sent, Subscription
from shared.storage.event_feed import FeedEvent

__all__ = ["EventSubscription", "FeedEvent", "FeedUpdate"]

FeedUpdate = FeedEvent | KeepAlive | EndReason


class EventSubscription(Subscription[FeedEvent, int]):
    """One watch of the feed; events up to the number of its position were handed over, or are of other types.

    Before the oldest event the position is 0.
    """

    def __init__(self, position: int, event_types: frozenset[str]) -> None:
        super().__init__(position)
        self._event_types = event_types

    def put(self, events: Iterable[FeedEvent], *, through: int) -> None:
        """Let events behind the position wait, by number, and move on to where they were read to."""
        if self.ended:
            return
        wanted = [each for each in events if each.number > self.position and self._wants(each)]
        self.position = max(self.position, through)
        self._let_wait(Sent(each, each.number) for each in wanted)

    def _wants(self, event: FeedEvent) -> bool:
        return not self._event_types or event.event_type in self._event_types
