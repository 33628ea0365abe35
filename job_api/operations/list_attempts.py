"""Lists a job's attempts."""

from __future__ import annotations

from job_api.operations import paging
from job_api.operations.caller import Caller
from job_api.operations.paging import Page, PageRequest
from job_api.operations.visibility import visible_job
from shared.domain.identity import JobId
from shared.storage.attempts import Attempt
from shared.storage.transactions import Transactions

__all__ = ["Attempt", "ListAttempts"]


class ListAttempts:
    """Reads attempts, first to last, the running one included."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, caller: Caller, job_id: JobId, page: PageRequest) -> Page[Attempt]:
        """Return a page of attempts.

        Raises:
            JobNotFound: There is none for this caller.
            InvalidPageToken: The token belongs to another list.
        """
        of = ["attempts", str(job_id)]
        after = paging.begin(page, of, paging.ordinal, 0)
        async with self._transactions.begin() as transaction:
            await visible_job(transaction, caller, job_id)
            attempts = await transaction.attempts.list_of(job_id, after=after, limit=page.size + 1)
        return paging.ended(attempts, page.size, of, lambda attempt: attempt.number)
