"""Lists batches, newest first."""

from __future__ import annotations

from dataclasses import replace

from job_api.operations import paging
from job_api.operations.batch_filters import described, place, position
from job_api.operations.caller import Caller
from job_api.operations.paging import Page, PageRequest
from shared.domain.batches import Batch
from shared.storage.batches import BatchFilter, BatchPosition
from shared.storage.transactions import Transactions

__all__ = ["BatchFilter", "ListBatches"]


class ListBatches:
    """Reads pages by place, as `ListJobs` does."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, caller: Caller, batch_filter: BatchFilter, page: PageRequest) -> Page[Batch]:
        """Return a page of the batches that the caller may see and the filter lets through.

        Raises:
            InvalidPageToken: The token is malformed, or belongs to another filter or caller.
            PermissionDenied: The filter names another owner, and the caller may not see all.
        """
        batch_filter = replace(batch_filter, owner=caller.looking_at(batch_filter.owner))
        of = ["batches", described(batch_filter)]
        after = paging.begin(page, of, position, None)
        async with self._transactions.begin() as transaction:
            found = await transaction.batches.page(batch_filter, after=after, limit=page.size + 1)
        return paging.ended(
            found, page.size, of, lambda batch: place(BatchPosition(batch.create_time, batch.batch_id))
        )
