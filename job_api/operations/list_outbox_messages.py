"""Lists what leaves the database, or can't, by state."""

from __future__ import annotations

from dataclasses import replace

from job_api.operations import opaque, paging
from job_api.operations.paging import Page, PageRequest
from shared.domain.events import OutboxState
from shared.storage.outbox_messages import OutboxMessage
from shared.storage.transactions import Transactions

__all__ = ["ListOutboxMessages", "OutboxMessage", "OutboxState"]


class ListOutboxMessages:
    """Reads pages by row number: messages that come or go meanwhile neither repeat nor hide others."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, state: OutboxState, page: PageRequest) -> Page[OutboxMessage]:
        """Return a page of messages, oldest first; it may be short, also empty, and yet not the last.

        Raises:
            InvalidPageToken: The token is malformed, or belongs to another state.
        """
        of = ["outbox", str(state)]
        after = paging.begin(page, of, paging.long_ordinal, 0)
        async with self._transactions.begin() as transaction:
            found = await transaction.outbox_messages.page(state, after=after, limit=page.size + 1)
        ended = paging.ended(found.messages, page.size, of, lambda message: str(message.outbox_id))
        if found.looked_to is not None:
            return replace(ended, next_token=opaque.seal(of, str(found.looked_to)))
        return ended
