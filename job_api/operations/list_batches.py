"""Lists batches, newest first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from job_api.operations import paging
from job_api.operations.caller import Caller
from job_api.operations.paging import Page, PageRequest
from shared.domain.batches import Batch
from shared.domain.identity import BatchId
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
        of = ["batches", paging.described(batch_filter)]
        after = paging.begin(page, of, _position, None)
        async with self._transactions.begin() as transaction:
            found = await transaction.batches.page(batch_filter, after=after, limit=page.size + 1)
        return paging.ended(found, page.size, of, _place)


def _place(batch: Batch) -> list[str]:
    return [paging.moment(batch.create_time), str(batch.batch_id)]


def _position(value: Any) -> BatchPosition:
    """Read what `_place` has written.

    Raises:
        TypeError: It is something else.
        ValueError: It is something else.
    """
    create_time, batch_id = value
    return BatchPosition(paging.time(create_time), BatchId(UUID(paging.text(batch_id))))
