"""Picks succeeded items of a settled batch."""

from __future__ import annotations

from job_api.operations.caller import Caller
from shared.domain.batches import Batch
from shared.domain.identity import BatchId
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps


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
        raise NotImplementedError
