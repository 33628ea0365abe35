"""The part of JobControl that is about batches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from job_api.operations.advance_batch import AdvanceBatch
from job_api.operations.cancel_batch import CancelBatch
from job_api.operations.create_batch import CreateBatch
from job_api.operations.estimate_batch import EstimateBatch
from job_api.operations.get_batch import GetBatch
from job_api.operations.list_batch_items import ListBatchItems
from job_api.operations.list_batches import ListBatches
from job_api.operations.retry_batch_items import RetryBatchItems
from job_api.operations.select_batch_items import SelectBatchItems
from job_api.operations.watch_batch import WatchBatch
from job_api.rpc import batch_convert, batch_messages, convert
from job_api.rpc.calls import Context, RequestLimits, traceparent
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOperations:
    """What can be asked about batches."""

    estimate_batch: EstimateBatch
    create_batch: CreateBatch
    get_batch: GetBatch
    list_batches: ListBatches
    list_batch_items: ListBatchItems
    cancel_batch: CancelBatch
    retry_batch_items: RetryBatchItems
    select_batch_items: SelectBatchItems
    advance_batch: AdvanceBatch
    watch_batch: WatchBatch


class BatchServicer(job_control_pb2_grpc.JobControlServicer):
    """Many jobs that are asked for together."""

    def __init__(self, operations: BatchOperations, limits: RequestLimits) -> None:
        self._about_batches = operations
        self._limits = limits

    async def EstimateBatch(
        self, request: pb.EstimateBatchRequest, context: Context
    ) -> pb.EstimateBatchResponse:
        job_type, size = batch_convert.estimate(request, items_max=self._limits.batch_items_max)
        return batch_messages.estimate_message(await self._about_batches.estimate_batch(job_type, size))

    async def CreateBatch(self, request: pb.CreateBatchRequest, context: Context) -> pb.CreateBatchResponse:
        command = batch_convert.create_batch_command(
            request,
            items_max=self._limits.batch_items_max,
            labels_max=self._limits.labels_max,
            traceparent=traceparent(context),
        )
        return batch_messages.creation_message(
            await self._about_batches.create_batch(convert.caller(), command)
        )

    async def GetBatch(self, request: pb.GetBatchRequest, context: Context) -> pb.GetBatchResponse:
        caller = convert.caller()
        reading = await self._about_batches.get_batch(caller, batch_convert.batch_id_of(request.batch_id))
        return batch_messages.reading_message(reading, inside=caller.sees_all)

    async def ListBatches(self, request: pb.ListBatchesRequest, context: Context) -> pb.ListBatchesResponse:
        batch_filter, asked = batch_convert.batch_list(request)
        page = await self._about_batches.list_batches(convert.caller(), batch_filter, asked)
        return batch_messages.batch_page(page)

    async def ListBatchItems(
        self, request: pb.ListBatchItemsRequest, context: Context
    ) -> pb.ListBatchItemsResponse:
        caller = convert.caller()
        batch_id, states, asked = batch_convert.item_list(request)
        page = await self._about_batches.list_batch_items(caller, batch_id, states, asked)
        return batch_messages.item_page(page, inside=caller.sees_all)

    async def CancelBatch(self, request: pb.CancelBatchRequest, context: Context) -> pb.CancelBatchResponse:
        batch_id = batch_convert.batch_id_of(request.batch_id)
        batch = await self._about_batches.cancel_batch(convert.caller(), batch_id)
        return pb.CancelBatchResponse(batch=batch_messages.batch_message(batch))

    async def RetryBatchItems(
        self, request: pb.RetryBatchItemsRequest, context: Context
    ) -> pb.RetryBatchItemsResponse:
        command = batch_convert.retry_command(
            request, items_max=self._limits.batch_items_max, traceparent=traceparent(context)
        )
        retried = await self._about_batches.retry_batch_items(convert.caller(), command)
        return batch_messages.retried_message(retried)

    async def SelectBatchItems(
        self, request: pb.SelectBatchItemsRequest, context: Context
    ) -> pb.SelectBatchItemsResponse:
        batch_id, items = batch_convert.selection(request, items_max=self._limits.batch_items_max)
        batch = await self._about_batches.select_batch_items(convert.caller(), batch_id, items)
        return pb.SelectBatchItemsResponse(batch=batch_messages.batch_message(batch))

    async def AdvanceBatch(
        self, request: pb.AdvanceBatchRequest, context: Context
    ) -> pb.AdvanceBatchResponse:
        batch_id, state = batch_convert.advance(request)
        batch = await self._about_batches.advance_batch(convert.caller(), batch_id, state)
        return pb.AdvanceBatchResponse(batch=batch_messages.batch_message(batch))

    async def WatchBatch(
        self, request: pb.WatchBatchRequest, context: Context
    ) -> AsyncIterator[pb.WatchBatchResponse]:
        caller = convert.caller()
        command = batch_convert.watch_command(request)
        async with aclosing(self._about_batches.watch_batch(caller, command)) as updates:
            async for each in updates:
                yield batch_messages.watched_message(each, inside=caller.sees_all)
