"""Lists jobs, newest first."""

from __future__ import annotations

from dataclasses import replace

from job_api.operations import paging
from job_api.operations.caller import Caller
from job_api.operations.job_filters import JobFilter, Position, place, position
from job_api.operations.paging import Page, PageRequest
from shared.domain.jobs import Job
from shared.storage.transactions import Transactions

__all__ = ["JobFilter", "ListJobs"]


class ListJobs:
    """Reads pages by place, not by number, so that jobs created meanwhile neither repeat nor hide others."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, caller: Caller, job_filter: JobFilter, page: PageRequest) -> Page[Job]:
        """Return a page of the jobs that the caller may see and the filter lets through.

        Raises:
            InvalidPageToken: The token is malformed, or belongs to another filter or caller.
            PermissionDenied: The filter names another owner, and the caller may not see all.
        """
        job_filter = replace(job_filter, owner=caller.looking_at(job_filter.owner))
        of = ["jobs", paging.described(job_filter)]
        after = paging.begin(page, of, position, None)
        async with self._transactions.begin() as transaction:
            jobs = await transaction.jobs.page(job_filter, after=after, limit=page.size + 1)
        return paging.ended(jobs, page.size, of, lambda job: place(Position(job.create_time, job.job_id)))
