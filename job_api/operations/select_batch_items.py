"""Picks succeeded items of a settled batch."""

from __future__ import annotations

import structlog

from job_api.operations.caller import Caller
from job_api.operations.visibility import visible_batch
from shared.domain.audit import AuditAction
from shared.domain.batches import Batch, BatchState
from shared.domain.errors import BatchStateConflict
from shared.domain.identity import BatchId
from shared.domain.jobs import JobState
from shared.storage.audit import AuditEntry
from shared.storage.transactions import Transaction, Transactions
from shared.streams.wake_ups import WakeUps

log = structlog.get_logger(__name__)


class SelectBatchItems:
    """Marks items, and makes the batch SELECTED."""

    def __init__(self, transactions: Transactions, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups

    async def __call__(self, caller: Caller, batch_id: BatchId, items: frozenset[int]) -> Batch:
        """Pick the items; the same selection asked for again is the same as once.

        Args:
            items: At least one.

        Raises:
            BatchNotFound: There is none for this caller.
            BatchStateConflict: The batch's state, or an item's, does not allow it; nothing is picked.
            PlatformUnavailable: They may or may not be picked; asking again tells.
        """
        async with self._transactions.begin() as transaction:
            await visible_batch(transaction, caller, batch_id)
            selected = await transaction.batch_changes.select(batch_id, items)
            # Once more, and now: what was selected meanwhile is there, and a selection stands for good.
            batch = await visible_batch(transaction, caller, batch_id)
            if selected:
                await _require_succeeded(transaction, batch_id, items)
                await transaction.audit.add(
                    [AuditEntry(caller.subject, batch.owner, AuditAction.BATCH_SELECT, batch_id)]
                )
            else:
                await _require_same(transaction, batch, items)
        if selected:
            log.info("batch.selected", batch_id=str(batch_id), items=len(items))
            await self._wake_ups.batches_changed([batch_id])
        return batch


async def _require_succeeded(transaction: Transaction, batch_id: BatchId, items: frozenset[int]) -> None:
    states = await transaction.batches.item_states(batch_id, items)
    for number in sorted(items):
        if number not in states:
            raise BatchStateConflict(batch_id, f"it has no item {number}")
        if states[number] is not JobState.SUCCEEDED:
            raise BatchStateConflict(batch_id, f"item {number} is {states[number]}, not SUCCEEDED")


async def _require_same(transaction: Transaction, batch: Batch, items: frozenset[int]) -> None:
    if batch.state is not BatchState.SELECTED:
        raise BatchStateConflict(batch.batch_id, f"it is {batch.state}")
    if await transaction.batches.selected(batch.batch_id) != items:
        raise BatchStateConflict(batch.batch_id, "other items are selected")
