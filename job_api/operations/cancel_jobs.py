"""Cancels all jobs of a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from job_api.operations import selected_jobs
from job_api.operations.caller import Caller
from job_api.operations.selected_jobs import SelectedOutcome, SelectedRequest
from shared.catalog.catalog import Catalog
from shared.domain.audit import AuditAction
from shared.domain.identity import JobId, JobType
from shared.storage import selections
from shared.storage.selections import Selected
from shared.storage.transactions import Transaction, Transactions
from shared.streams.wake_ups import WakeUps

log = structlog.get_logger(__name__)

JOBS_PER_STEP_MAX = 500
"""Jobs that one transaction changes: some 50 ms of locks."""


@dataclass(frozen=True, slots=True)
class _Cancels:
    """Jobs that were cancelled while they waited, and leased ones that were asked to stop."""

    waiting: frozenset[JobId]
    leased: frozenset[JobId]


class CancelJobs:
    """Does to each job what CancelJob does, and passes over those that it would refuse, or do nothing to."""

    def __init__(self, transactions: Transactions, catalog: Catalog, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups
        self._protected = frozenset[JobType](
            each.job_type for each in catalog.definitions.values() if not each.cancellable
        )

    async def __call__(self, caller: Caller, request: SelectedRequest) -> SelectedOutcome:
        """Cancel some of the jobs, or count them; each job that is counted never becomes SUCCEEDED.

        Raises:
            InvalidPageToken: The token is malformed, or of another filter, caller or call.
            PermissionDenied: The filter names another owner, and the caller may not see all.
            PlatformUnavailable: Some may be cancelled; asking again cancels the rest.
        """
        job_filter = replace(request.job_filter, owner=caller.looking_at(request.job_filter.owner))
        selection = selections.cancellable(job_filter, protected=self._protected)
        along = selected_jobs.walk("cancel", request, job_filter, selection)
        if request.dry_run:
            return await selected_jobs.count(self._transactions, along)
        return await selected_jobs.change_each(
            self._transactions,
            along,
            partial(self._cancel, caller),
            self._tell,
            jobs_per_step_max=JOBS_PER_STEP_MAX,
        )

    async def _cancel(self, caller: Caller, transaction: Transaction, jobs: Sequence[Selected]) -> _Cancels:
        job_ids = [each.job_id for each in jobs]
        waiting = await transaction.states.cancel_waiting(job_ids)
        others = [each for each in job_ids if each not in waiting]
        leased = await transaction.leases.request_cancels(others, protected=self._protected)
        await transaction.audit.add_for_jobs(caller.subject, AuditAction.JOB_CANCEL, [*waiting, *leased])
        return _Cancels(frozenset(waiting), frozenset(leased))

    async def _tell(self, cancels: _Cancels) -> int:
        changed = cancels.waiting | cancels.leased
        if changed:
            log.info("jobs.cancelled", waiting=len(cancels.waiting), leased=len(cancels.leased))
            await self._wake_ups.cancels_requested(cancels.leased)
            await self._wake_ups.jobs_changed(changed)
        return len(changed)
