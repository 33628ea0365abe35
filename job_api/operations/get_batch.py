"""Shows a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from job_api.operations.caller import Caller
from job_api.operations.visibility import visible_batch
from shared.domain.batches import Batch, BatchItem
from shared.domain.identity import BatchId
from shared.domain.jobs import JobState
from shared.storage.transactions import Transactions

FAILED_ITEMS_MAX = 1_000
"""More are listed in pages."""


@dataclass(frozen=True, slots=True)
class BatchReading:
    """A batch with its failed items, by number, at most `FAILED_ITEMS_MAX`."""

    batch: Batch
    failed_items: Sequence[BatchItem]


class GetBatch:
    """Reads state, counters and failed items in one transaction; items may have failed in between."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, caller: Caller, batch_id: BatchId) -> BatchReading:
        """Return the batch as it is now.

        Raises:
            BatchNotFound: There is none for this caller.
        """
        async with self._transactions.begin() as transaction:
            batch = await visible_batch(transaction, caller, batch_id)
            failed: Sequence[BatchItem] = ()
            if batch.counters.failed:
                failed = await transaction.batches.items(
                    batch_id, states=frozenset({JobState.FAILED}), after=0, limit=FAILED_ITEMS_MAX
                )
        return BatchReading(batch, failed)
