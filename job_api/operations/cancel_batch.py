"""Cancels a batch."""

from __future__ import annotations

from job_api.operations.caller import Caller
from shared.domain.batches import Batch
from shared.domain.identity import BatchId
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps


class CancelBatch:
    """Skips what waits at once; what runs may finish, and an attempt that does not succeed is the last."""

    def __init__(self, transactions: Transactions, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups

    async def __call__(self, caller: Caller, batch_id: BatchId) -> Batch:
        """Cancel the batch; asking again while items still run is the same as once.

        Raises:
            BatchNotFound: There is none for this caller.
            BatchStateConflict: It has settled.
            PlatformUnavailable: It may or may not be cancelled; asking again tells.
        """
        raise NotImplementedError
