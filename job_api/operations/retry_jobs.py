"""Runs all jobs of a filter again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

import structlog

from job_api.operations import selected_jobs
from job_api.operations.caller import Caller
from job_api.operations.reruns import Asking, rerun
from job_api.operations.selected_jobs import SelectedOutcome, SelectedRequest
from shared.catalog.catalog import Catalog
from shared.domain.identity import JobId
from shared.storage import selections
from shared.storage.selections import Selected
from shared.storage.transactions import Transaction, Transactions

log = structlog.get_logger(__name__)

JOBS_PER_STEP_MAX = 200
"""Jobs that one transaction creates, whose inputs have 1 MiB each at most: it takes a second at worst."""


class RetryJobs:
    """Does to each job what RetryJob does, and passes over those that it would refuse.

    One that was run again before is passed over too: so asking twice, or at the same time, runs no job twice.
    """

    def __init__(
        self,
        transactions: Transactions,
        catalog: Catalog,
        *,
        new_id: Callable[[], UUID],
        wake_dispatcher: asyncio.Event,
    ) -> None:
        self._transactions = transactions
        self._definitions = catalog.definitions
        self._takes = [(each.job_type, each.input_schema_version) for each in self._definitions.values()]
        self._new_id = new_id
        self._wake_dispatcher = wake_dispatcher

    async def __call__(
        self, caller: Caller, request: SelectedRequest, *, traceparent: str = ""
    ) -> SelectedOutcome:
        """Run some of the jobs again, or count them.

        Raises:
            InvalidPageToken: The token is malformed, or of another filter, caller or call.
            PermissionDenied: The filter names another owner, and the caller may not see all.
            PlatformUnavailable: Some may run again; asking again does the rest.
        """
        job_filter = replace(request.job_filter, owner=caller.looking_at(request.job_filter.owner))
        selection = selections.retryable(job_filter, takes=self._takes)
        along = selected_jobs.walk("retry", request, job_filter, selection)
        if request.dry_run:
            return await selected_jobs.count(self._transactions, along)
        run_again = partial(self._run_again, Asking(caller.subject, traceparent))
        return await selected_jobs.change_each(
            self._transactions, along, run_again, self._tell, jobs_per_step_max=JOBS_PER_STEP_MAX
        )

    async def _run_again(
        self, asking: Asking, transaction: Transaction, jobs: Sequence[Selected]
    ) -> set[JobId]:
        oldest_first = [
            rerun(
                each.job_id,
                job_id=JobId(self._new_id()),
                definition=self._definitions[each.job_type],
                priority=each.priority,
                asking=asking,
            )
            for each in reversed(jobs)
        ]
        return await transaction.reruns.create(oldest_first, also_again=False)

    async def _tell(self, job_ids: set[JobId]) -> int:
        if job_ids:
            log.info("jobs.retried", jobs=len(job_ids))
            self._wake_dispatcher.set()
        return len(job_ids)
