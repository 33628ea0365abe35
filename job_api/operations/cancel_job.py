"""Cancels a job."""

from __future__ import annotations

import structlog

from job_api.operations.caller import Caller
from shared.catalog.catalog import Catalog
from shared.domain.audit import AuditAction
from shared.domain.errors import JobAlreadyCancelled, JobNotCancellable, JobNotFound
from shared.domain.identity import JobId, JobType
from shared.domain.jobs import TERMINAL_STATES, Job, JobState
from shared.storage.audit import AuditEntry
from shared.storage.jobs import LockedJob
from shared.storage.transactions import Transaction, Transactions
from shared.streams.wake_ups import WakeUps

log = structlog.get_logger(__name__)


class CancelJob:
    """Once this has returned, the job never becomes SUCCEEDED: whatever ends its attempt makes it CANCELLED.

    A claim, a result and a cancel of one job meet at its row lock, so each sees what the one before did.
    """

    def __init__(self, transactions: Transactions, catalog: Catalog, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._catalog = catalog
        self._wake_ups = wake_ups

    async def __call__(self, caller: Caller, job_id: JobId) -> Job:
        """Cancel a waiting job, or ask a leased one to stop; asking again meanwhile is the same as once.

        Raises:
            JobNotFound: There is none for this caller.
            JobAlreadyCancelled: It is CANCELLED.
            JobNotCancellable: It has ended, or is leased and its definition forbids it.
            PlatformUnavailable: It may or may not be cancelled; asking again tells.
        """
        async with self._transactions.begin() as transaction:
            locked = await transaction.jobs.lock(job_id)
            if locked is None or not caller.sees(locked.owner):
                raise JobNotFound(job_id)
            _refuse_ended(job_id, locked)
            waited = job_id in await transaction.states.cancel_waiting([job_id])
            if waited or await self._request(transaction, job_id, locked.job_type):
                record = AuditEntry(caller.subject, locked.owner, AuditAction.JOB_CANCEL, job_id)
                await transaction.audit.add([record])
            job = await transaction.jobs.get(job_id)
        if job is None:
            raise JobNotFound(job_id)
        log.info("job.cancelled" if waited else "job.cancel_requested", job_id=str(job_id))
        if not waited:
            await self._wake_ups.cancels_requested([job_id])
        await self._wake_ups.jobs_changed([job_id])
        return job

    async def _request(self, transaction: Transaction, job_id: JobId, job_type: JobType) -> bool:
        """Ask a leased job to stop; return whether that is new."""
        # Jobs of a type that the catalog has lost can be cancelled: nobody can say that they may not.
        definition = self._catalog.definitions.get(job_type)
        if definition is not None and not definition.cancellable:
            raise JobNotCancellable(job_id, "it runs, and its definition forbids it")
        return job_id in await transaction.leases.request_cancels([job_id])


def _refuse_ended(job_id: JobId, locked: LockedJob) -> None:
    if locked.state is JobState.CANCELLED:
        raise JobAlreadyCancelled(job_id)
    if locked.state in TERMINAL_STATES:
        raise JobNotCancellable(job_id)
