"""Lists batches, newest first."""

from __future__ import annotations

from job_api.operations.caller import Caller
from job_api.operations.paging import Page, PageRequest
from shared.domain.batches import Batch
from shared.storage.batches import BatchFilter
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
        raise NotImplementedError
