"""Lists the items of a batch by number."""

from __future__ import annotations

from job_api.operations.caller import Caller
from job_api.operations.paging import Page, PageRequest
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
        raise NotImplementedError
