"""The operations about batches on one database, as a caller asks them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from job_api.operations.advance_batch import AdvanceBatch
from job_api.operations.caller import Caller
from job_api.operations.cancel_batch import CancelBatch
from job_api.operations.create_batch import BatchCreation, CreateBatch, CreateBatchCommand
from job_api.operations.creating import Creating
from job_api.operations.job_request import JobRequests
from job_api.operations.owner_quotas import NO_QUOTAS, OwnerQuotas
from job_api.operations.retry_batch_items import ItemsRetried, RetryBatchItems, RetryBatchItemsCommand
from job_api.operations.select_batch_items import SelectBatchItems
from shared.catalog import catalog as catalogs
from shared.domain.batches import Batch, BatchState
from shared.domain.identity import BatchId, Owner
from shared.runtime.ids import new_id
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps
from tests.support.batches import FAILURE, SUCCESS, a_batch, end, the_batch

OWNER = Caller(Owner("owner"))
STRANGER = Caller(Owner("stranger"))
KEY_LIFE = timedelta(hours=24)


class BatchCalls:
    """Each method is one call; the caller is the owner where no other is named."""

    def __init__(
        self, transactions: Transactions, wake_ups: WakeUps, *, quotas: OwnerQuotas = NO_QUOTAS
    ) -> None:
        catalog = catalogs.load()
        self.woken = asyncio.Event()
        creating = Creating(new_id=new_id, keys_kept_for=KEY_LIFE, wake_dispatcher=self.woken, quotas=quotas)
        self.create_batch = CreateBatch(
            transactions, JobRequests(catalog, input_bytes_max=1024), creating, wake_ups
        )
        self.cancel_batch = CancelBatch(transactions, wake_ups)
        self.retry_items = RetryBatchItems(transactions, catalog, wake_ups, creating)
        self.select_items = SelectBatchItems(transactions, wake_ups)
        self.advance_batch = AdvanceBatch(transactions, wake_ups)

    async def create(
        self, inputs: Sequence[bytes], *, key: str | None = None, job_type: str = "synthetic"
    ) -> BatchCreation:
        return await self.create_batch(OWNER, CreateBatchCommand(job_type=job_type, inputs=inputs, key=key))

    async def cancel(self, batch_id: BatchId, *, caller: Caller = OWNER) -> Batch:
        return await self.cancel_batch(caller, batch_id)

    async def retry(
        self, batch_id: BatchId, *items: int, key: str | None = None, caller: Caller = OWNER
    ) -> ItemsRetried:
        return await self.retry_items(caller, RetryBatchItemsCommand(batch_id, frozenset(items), key))

    async def select(self, batch_id: BatchId, *items: int, caller: Caller = OWNER) -> Batch:
        return await self.select_items(caller, batch_id, frozenset(items))

    async def advance(self, batch_id: BatchId, state: BatchState, *, caller: Caller = OWNER) -> Batch:
        return await self.advance_batch(caller, batch_id, state)


async def batch_in(transactions: Transactions, calls: BatchCalls, state: BatchState) -> BatchId:
    """Create a batch of three items and bring it into a state; where some succeeded, item 1 did."""
    batch_id = await a_batch(transactions, 3)
    ends = {
        BatchState.QUEUED: {},
        BatchState.RUNNING: {2: FAILURE},
        BatchState.FAILED: {1: FAILURE, 2: FAILURE, 3: FAILURE},
        BatchState.PARTIALLY_FAILED: {1: SUCCESS, 2: FAILURE, 3: FAILURE},
    }.get(state, {1: SUCCESS, 2: SUCCESS, 3: SUCCESS})
    if state is BatchState.CANCELLED:
        await calls.cancel(batch_id)
    elif ends:
        await end(transactions, batch_id, ends)
    if state in (BatchState.SELECTED, BatchState.EXPORTED, BatchState.STORED):
        await calls.select(batch_id, 1)
    for step in (BatchState.EXPORTED, BatchState.STORED):
        if state in (step, BatchState.STORED):
            await calls.advance(batch_id, step)
    assert (await the_batch(transactions, batch_id)).state is state
    return batch_id
