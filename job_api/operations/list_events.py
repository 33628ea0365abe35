"""Lists events for other services, in the order of the feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from job_api.operations import event_cursors
from shared.storage.event_feed import FeedEvent
from shared.storage.transactions import Transactions


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Events, oldest first; the cursor leads on, also when there is nothing newer yet."""

    events: Sequence[FeedEvent]
    next_cursor: str


class ListEvents:
    """Reads behind a number; what commits late gets a higher one, so nothing is passed over."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, cursor: str, *, size: int, event_types: frozenset[str]) -> FeedPage:
        """Return up to `size` events behind the cursor, of these types; of all types if none is named.

        Raises:
            InvalidInput: The cursor is not one of this feed, or older than what is kept.
        """
        async with self._transactions.begin() as transaction:
            number = await event_cursors.start(transaction, cursor)
            page = await transaction.event_feed.after(number, limit=size, event_types=event_types)
        if cursor and number < page.removed:  # removed since the cursor was looked at
            raise event_cursors.outrun()
        return FeedPage(page.events, event_cursors.seal(page.through))
