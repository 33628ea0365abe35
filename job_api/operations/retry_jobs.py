"""Runs all jobs of a filter again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from job_api.operations import selected_jobs
from job_api.operations.caller import Caller
from job_api.operations.creating import Creating
from job_api.operations.owner_quotas import Reservation
from job_api.operations.reruns import Asking, rerun
from job_api.operations.selected_jobs import SelectedOutcome, SelectedRequest, Stop
from shared.catalog.catalog import Catalog
from shared.domain.identity import JobId
from shared.storage import selections
from shared.storage.selections import Selected
from shared.storage.transactions import Transaction, Transactions

log = structlog.get_logger(__name__)

JOBS_PER_STEP_MAX = 200
"""Jobs that one transaction creates, whose inputs have 1 MiB each at most: it takes a second at worst."""


@dataclass(frozen=True, slots=True)
class _RunAgain:
    """The new jobs, and the old one that its owner's limits keep from running, if there was one."""

    job_ids: frozenset[JobId]
    stop: Stop | None


class RetryJobs:
    """Does to each job what RetryJob does, and passes over those that it would refuse.

    One that was run again before is passed over too: so asking twice, or at the same time, runs no job twice.
    A limit of an owner is not passed over: the walk stops before the first job that it refuses, and the next
    call goes on there, or says which limit it is if that still refuses.
    """

    def __init__(self, transactions: Transactions, catalog: Catalog, creating: Creating) -> None:
        self._transactions = transactions
        self._creating = creating
        self._definitions = catalog.definitions
        self._takes = [(each.job_type, each.input_schema_version) for each in self._definitions.values()]

    async def __call__(
        self, caller: Caller, request: SelectedRequest, *, traceparent: str = ""
    ) -> SelectedOutcome:
        """Run some of the jobs again, or count them.

        Raises:
            InvalidPageToken: The token is malformed, or of another filter, caller or call.
            PermissionDenied: The filter names another owner, and the caller may not see all.
            TooManyJobs: The first of the jobs has an owner with as many active jobs as allowed.
            QuotaExceeded: The first of the jobs has an owner whose day or month is used up.
            PlatformUnavailable: Some may run again; asking again does the rest.
        """
        job_filter = replace(request.job_filter, owner=caller.looking_at(request.job_filter.owner))
        selection = selections.retryable(job_filter, takes=self._takes)
        along = selected_jobs.walk("retry", request, job_filter, selection)
        if request.dry_run:
            return await selected_jobs.count(self._transactions, along)
        run_again = partial(self._run_again, Asking(caller.subject, traceparent))
        return await selected_jobs.change_each(
            self._transactions,
            along,
            run_again,
            self._tell,
            jobs_per_step_max=JOBS_PER_STEP_MAX,
            stop=lambda run: run.stop,
        )

    async def _run_again(
        self, asking: Asking, transaction: Transaction, jobs: Sequence[Selected]
    ) -> _RunAgain:
        reservation = await self._creating.quotas.reserve(transaction, [each.owner for each in jobs])
        fitting, stop = _fitting(jobs, reservation)
        oldest_first = {JobId(self._creating.new_id()): each for each in reversed(fitting)}
        reruns = [
            rerun(
                each.job_id,
                job_id=job_id,
                definition=self._definitions[each.job_type],
                priority=each.priority,
                asking=asking,
            )
            for job_id, each in oldest_first.items()
        ]
        made = await transaction.reruns.create(reruns, also_again=False)
        unused = [each.owner for job_id, each in oldest_first.items() if job_id not in made]
        accepted = zip(jobs[len(fitting) :], reservation.refusals[len(fitting) :], strict=True)
        unused += [each.owner for each, refusal in accepted if refusal is None]
        await self._creating.quotas.give_back(transaction, reservation, unused)
        return _RunAgain(frozenset(made), stop)

    async def _tell(self, run: _RunAgain) -> int:
        if run.job_ids:
            log.info("jobs.retried", jobs=len(run.job_ids))
            self._creating.wake_dispatcher.set()
        return len(run.job_ids)


def _fitting(jobs: Sequence[Selected], reservation: Reservation) -> tuple[Sequence[Selected], Stop | None]:
    """Return the jobs before the first one that is refused, and what stops the walk there."""
    for place, refusal in enumerate(reservation.refusals):
        if refusal is not None:
            return jobs[:place], Stop(refusal, jobs[place - 1].position if place else None)
    return jobs, None
