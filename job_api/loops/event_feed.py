"""Reads the feed of events for other services once for all who watch it on this replica.

Numbers of the feed are contiguous for whoever reads behind one, so what was read behind a position serves
every watch that stands there or further on, up to where the reading ended. Most stand at the end of the feed,
and one query serves them all; a watch that catches up gets its turn, and then joins them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from job_api.loops.slow_watches import found_slow
from job_api.operations import event_cursors
from job_api.operations.event_watching import EventSubscription
from job_api.operations.subscriptions import EndReason
from shared.storage.transactions import Transactions

log = structlog.get_logger(__name__)

EVENTS_PER_STEP_MAX = 250
"""Some 100 KB; that much more than its room may wait for one watch."""


class EventFeed:
    """Hands events to watches that have room; one that has none for too long is ended."""

    def __init__(
        self,
        transactions: Transactions,
        *,
        slow_after: timedelta,
        monotonic: Callable[[], float],
        wake: asyncio.Event,
    ) -> None:
        self._transactions = transactions
        self._slow_seconds = slow_after.total_seconds()
        self._monotonic = monotonic
        self._wake = wake
        self._watches: dict[EventSubscription, None] = {}
        self._foremost_first = True
        self._draining = False

    def join(self, subscription: EventSubscription) -> None:
        if self._draining:
            subscription.end(EndReason.DRAINING)
            return
        self._watches[subscription] = None
        self._wake.set()

    def leave(self, subscription: EventSubscription) -> None:
        self._watches.pop(subscription, None)

    def stir(self, _: EventSubscription) -> None:
        self._wake.set()

    async def drain(self) -> None:
        """End every watch, and each that comes later."""
        self._draining = True
        for each in self._watches:
            each.end(EndReason.DRAINING)

    async def step(self) -> bool:
        """Read for the foremost or the hindmost watches, in turns, and return True if there may be more.

        Raises:
            PlatformUnavailable: Postgres is away; the watches stay.
        """
        self._end_slow()
        ready = self._ready()
        if not ready:
            return False
        self._foremost_first = not self._foremost_first
        after = (max if self._foremost_first else min)(each.position for each in ready)
        async with self._transactions.begin() as transaction:
            read = await transaction.event_feed.after(after, limit=EVENTS_PER_STEP_MAX)
        for each in ready:
            if 0 < each.position < read.removed:
                each.end(event_cursors.outrun())
            elif after <= each.position < read.through:
                each.put(read.events, through=read.through)
        return any(each.position < read.last for each in self._ready())

    def _ready(self) -> list[EventSubscription]:
        return [each for each in self._watches if each.has_room and not each.ended]

    def _end_slow(self) -> None:
        now = self._monotonic()
        for each in found_slow(self._watches, now=now, slow_seconds=self._slow_seconds):
            log.info("feed_watch.too_slow", position=each.position)
            each.end(EndReason.SLOW)
