"""Follows the feed of events for other services."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from job_api.operations import event_cursors
from job_api.operations.event_watching import EventSubscription, FeedUpdate
from job_api.operations.subscriptions import Feed
from shared.storage.transactions import Transactions


@dataclass(frozen=True, slots=True)
class WatchedFeed:
    """An update, and the cursor that stands for everything up to it."""

    update: FeedUpdate
    cursor: str


class WatchEvents:
    """A stream without end of its own; where the service ends it, it says why with an `EndReason`."""

    def __init__(
        self, transactions: Transactions, feed: Feed[EventSubscription], *, keep_alive: timedelta
    ) -> None:
        self._transactions = transactions
        self._feed = feed
        self._keep_alive_seconds = keep_alive.total_seconds()

    async def __call__(
        self, cursor: str, *, event_types: frozenset[str]
    ) -> AsyncGenerator[WatchedFeed, None]:
        """Yield the events behind the cursor and those that come, of these types; of all if none is named.

        Raises:
            InvalidInput: The cursor is not one of this feed, or older than what is kept.
        """
        async with self._transactions.begin() as transaction:
            position = await event_cursors.start(transaction, cursor)
        subscription = EventSubscription(position, event_types)
        watch = subscription.follow(self._feed, keep_alive_seconds=self._keep_alive_seconds)
        async with aclosing(watch) as updates:
            async for sent in updates:
                yield WatchedFeed(sent.update, event_cursors.seal(sent.position))
