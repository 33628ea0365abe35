"""Lists executors."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from job_api.operations import paging
from job_api.operations.paging import Page, PageRequest
from shared.domain.identity import IncarnationId
from shared.storage.executors import FIRST_PLACE, Executor, ExecutorPlace
from shared.storage.transactions import Transactions

__all__ = ["Executor", "ListExecutors"]


class ListExecutors:
    """Reads pages by place, so that executors that come or go neither repeat nor hide others."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, page: PageRequest) -> Page[Executor]:
        """Return a page of executors by name, each of its starts for itself.

        Raises:
            InvalidPageToken: The token belongs to another list.
        """
        of = ["executors"]
        after = paging.begin(page, of, _place, FIRST_PLACE)
        async with self._transactions.begin() as transaction:
            executors = await transaction.executors.page(after=after, limit=page.size + 1)
        return paging.ended(
            executors, page.size, of, lambda each: [each.executor_name, str(each.incarnation_id)]
        )


def _place(value: Any) -> ExecutorPlace:
    executor_name, incarnation_id = value
    return ExecutorPlace(paging.text(executor_name), IncarnationId(UUID(paging.text(incarnation_id))))
