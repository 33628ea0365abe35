"""Takes a selected batch on: exported, then stored."""

from __future__ import annotations

from job_api.operations.caller import Caller
from shared.domain.batches import Batch, BatchState
from shared.domain.identity import BatchId
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps


class AdvanceBatch:
    """Records the steps that a caller takes with a selection."""

    def __init__(self, transactions: Transactions, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups

    async def __call__(self, caller: Caller, batch_id: BatchId, state: BatchState) -> Batch:
        """Make the batch EXPORTED or STORED; one that is already there stays so, and nothing is written.

        Args:
            state: EXPORTED or STORED.

        Raises:
            BatchNotFound: There is none for this caller.
            BatchStateConflict: It is not in the state before.
            PlatformUnavailable: The step may or may not be taken; asking again tells.
        """
        raise NotImplementedError
