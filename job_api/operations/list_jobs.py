"""Lists jobs, newest first."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from job_api.operations import paging
from job_api.operations.caller import Caller
from job_api.operations.paging import Page, PageRequest
from shared.domain.identity import JobId
from shared.domain.jobs import Job
from shared.storage.jobs import JobFilter, Position
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
        of = ["jobs", _described(job_filter)]
        after = paging.begin(page, of, _position, None)
        async with self._transactions.begin() as transaction:
            jobs = await transaction.jobs.page(job_filter, after=after, limit=page.size + 1)
        return paging.ended(jobs, page.size, of, _place)


def _described(job_filter: JobFilter) -> dict[str, Any]:
    """The filter as a JSON value that is the same whenever the filter is."""
    fields = asdict(job_filter)
    for name in ("created_from", "created_to"):
        fields[name] = fields[name] and fields[name].isoformat()
    return {**fields, "states": sorted(fields["states"])}


def _place(job: Job) -> list[str]:
    return [job.create_time.astimezone(UTC).isoformat(), str(job.job_id)]


def _position(value: Any) -> Position:
    create_time, job_id = value
    if not isinstance(create_time, str) or not isinstance(job_id, str):
        raise TypeError
    moment = datetime.fromisoformat(create_time)
    if moment.tzinfo is None:
        raise ValueError
    return Position(moment.astimezone(UTC), JobId(UUID(job_id)))
