"""Lists the items of a batch by number."""

from __future__ import annotations

from job_api.operations import paging
from job_api.operations.caller import Caller
from job_api.operations.paging import Page, PageRequest
from job_api.operations.visibility import visible_batch
from shared.domain.batches import BatchItem
from shared.domain.identity import BatchId
from shared.domain.jobs import JobState
from shared.storage.transactions import Transactions


class ListBatchItems:
    """Reads pages by the items' numbers."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(
        self, caller: Caller, batch_id: BatchId, states: frozenset[JobState], page: PageRequest
    ) -> Page[BatchItem]:
        """Return a page of items, each with its newest job.

        Args:
            states: Only items whose newest job is in one of these; empty means all.

        Raises:
            BatchNotFound: There is none for this caller.
            InvalidPageToken: The token is malformed, or belongs to another batch or filter.
        """
        of = ["batch_items", str(batch_id), sorted(states)]
        async with self._transactions.begin() as transaction:
            await visible_batch(transaction, caller, batch_id)
            after = paging.begin(page, of, paging.ordinal, 0)
            items = await transaction.batches.items(batch_id, states=states, after=after, limit=page.size + 1)
        return paging.ended(items, page.size, of, lambda item: item.number)
