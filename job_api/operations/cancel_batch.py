"""Cancels a batch."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from job_api.operations.caller import Caller
from job_api.operations.visibility import visible_batch
from shared.domain.audit import AuditAction
from shared.domain.batches import Batch, BatchState
from shared.domain.errors import BatchStateConflict
from shared.domain.identity import BatchId, JobId
from shared.storage.audit import AuditEntry
from shared.storage.transactions import Transaction, Transactions
from shared.streams.wake_ups import WakeUps

log = structlog.get_logger(__name__)

JOBS_PER_STATEMENT_MAX = 2_000
"""Some 200 ms, far from the longest time that a statement may take; all are in one transaction."""


@dataclass(frozen=True, slots=True)
class _Cancelled:
    """What a call has changed; `first` unless another one had cancelled the batch before."""

    first: bool
    skipped: frozenset[JobId]
    leased: int


class CancelBatch:
    """Skips what waits at once; what runs may finish, and an attempt that does not succeed is the last.

    All open jobs are locked before anything is changed. So no claim and no end of an attempt comes between:
    each is counted either before, or by the rule that the batch is cancelled.
    """

    def __init__(self, transactions: Transactions, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups

    async def __call__(self, caller: Caller, batch_id: BatchId) -> Batch:
        """Cancel the batch; asking again is the same as once, also when it has settled as CANCELLED.

        Raises:
            BatchNotFound: There is none for this caller.
            BatchStateConflict: It has settled otherwise.
            PlatformUnavailable: It may or may not be cancelled; asking again tells.
        """
        async with self._transactions.begin() as transaction:
            await visible_batch(transaction, caller, batch_id)
            cancelled = await self._cancel(transaction, batch_id)
            batch = await visible_batch(transaction, caller, batch_id)
            if cancelled is None and batch.state is not BatchState.CANCELLED:
                raise BatchStateConflict(batch_id, f"it is {batch.state}")
            if cancelled is not None and cancelled.first:
                await transaction.audit.add(
                    [AuditEntry(caller.subject, batch.owner, AuditAction.BATCH_CANCEL, batch_id)]
                )
        if cancelled is not None and cancelled.first:
            skipped = len(cancelled.skipped)
            log.info("batch.cancelled", batch_id=str(batch_id), skipped=skipped, leased=cancelled.leased)
            await self._wake_ups.jobs_changed(cancelled.skipped)
            await self._wake_ups.batches_changed([batch_id])
        return batch

    async def _cancel(self, transaction: Transaction, batch_id: BatchId) -> _Cancelled | None:
        """Skip what is open; None if the batch has settled."""
        await transaction.batch_changes.be_alone(batch_id)
        job_ids = await transaction.batch_changes.lock_open_jobs(batch_id)
        first = await transaction.batch_changes.request_cancel(batch_id)
        if first is None:
            return None
        skipped = set[JobId]()
        for place in range(0, len(job_ids), JOBS_PER_STATEMENT_MAX):
            part = job_ids[place : place + JOBS_PER_STATEMENT_MAX]
            skipped |= await transaction.states.cancel_waiting(part)
        leased = await transaction.batch_changes.skip_leased(job_ids)
        return _Cancelled(first, frozenset(skipped), leased)
