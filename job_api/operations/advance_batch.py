"""Takes a selected batch on: exported, then stored."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import structlog

from job_api.operations.caller import Caller
from job_api.operations.visibility import visible_batch
from shared.domain.audit import AuditAction
from shared.domain.batches import BATCH_TRANSITIONS, Batch, BatchChange, BatchState
from shared.domain.errors import BatchStateConflict
from shared.domain.identity import BatchId
from shared.storage.audit import AuditEntry
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps

log = structlog.get_logger(__name__)

STEPS: Mapping[BatchState, BatchChange] = MappingProxyType(
    {BATCH_TRANSITIONS[change].target: change for change in (BatchChange.EXPORTED, BatchChange.STORED)}
)
"""The states that a caller may name, with the change that leads to each."""


class AdvanceBatch:
    """Records the steps that a caller takes with a selection."""

    def __init__(self, transactions: Transactions, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups

    async def __call__(self, caller: Caller, batch_id: BatchId, state: BatchState) -> Batch:
        """Make the batch EXPORTED or STORED; one that is already there stays so, and nothing is written.

        Args:
            state: One of `STEPS`.

        Raises:
            BatchNotFound: There is none for this caller.
            BatchStateConflict: It is not in the state before.
            PlatformUnavailable: The step may or may not be taken; asking again tells.
        """
        async with self._transactions.begin() as transaction:
            await visible_batch(transaction, caller, batch_id)
            advanced = await transaction.batch_changes.advance(batch_id, STEPS[state])
            batch = await visible_batch(transaction, caller, batch_id)
            if advanced:
                await transaction.audit.add(
                    [AuditEntry(caller.subject, batch.owner, AuditAction.BATCH_ADVANCE, batch_id)]
                )
            elif batch.state is not state:
                raise BatchStateConflict(batch_id, f"it is {batch.state}, and can't become {state}")
        if advanced:
            log.info("batch.advanced", batch_id=str(batch_id), state=state)
            await self._wake_ups.batches_changed([batch_id])
        return batch
