"""Batches, from the engine's values to messages."""

from __future__ import annotations

from functools import partial
from typing import assert_never

from job_api.operations.create_batch import BatchCreation
from job_api.operations.estimate_batch import BatchEstimate
from job_api.operations.get_batch import BatchReading
from job_api.operations.paging import Page
from job_api.operations.retry_batch_items import ItemsRetried
from job_api.operations.subscriptions import EndReason, KeepAlive
from job_api.operations.watch_batch import WatchedBatch
from job_api.rpc import pages
from job_api.rpc.messages import duration, error_message, job_message, state_number, timestamp
from job_api.rpc.watch_messages import END_REASONS
from shared.domain.batches import Batch, BatchCounters, BatchEvent, BatchItem, BatchState
from shared.gen.baton.v1 import batch_pb2, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb


def batch_message(batch: Batch) -> batch_pb2.Batch:
    return batch_pb2.Batch(
        batch_id=str(batch.batch_id),
        job_type=batch.job_type,
        owner=batch.owner,
        state=batch_state_number(batch.state),
        title=batch.title,
        size=batch.size,
        counters=counters_message(batch.counters),
        progress=batch.progress,
        target=job_pb2.Target(type=batch.target.type, id=batch.target.id) if batch.target else None,
        create_time=timestamp(batch.create_time),
        start_time=timestamp(batch.start_time),
        settle_time=timestamp(batch.settle_time),
        labels=dict(batch.labels),
        last_event_number=batch.last_event_number,
    )


def item_message(item: BatchItem, *, inside: bool) -> batch_pb2.BatchItem:
    """Render an item with its newest job.

    Args:
        inside: Whether the caller may see what happened inside.
    """
    return batch_pb2.BatchItem(
        number=item.number,
        job=job_message(item.job, inside=inside),
        earlier_job_ids=[str(each) for each in item.earlier_job_ids],
        attempt_count=item.attempt_count,
        selected=item.selected,
    )


def event_message(event: BatchEvent, *, inside: bool) -> batch_pb2.BatchEvent:
    return batch_pb2.BatchEvent(
        batch_id=str(event.batch_id),
        number=event.number,
        state=batch_state_number(event.state),
        counters=counters_message(event.counters),
        item=event.item,
        item_state=state_number(event.item_state) if event.item_state else job_pb2.JOB_STATE_UNSPECIFIED,
        error=error_message(event.error, inside=inside),
        event_time=timestamp(event.event_time),
    )


def counters_message(counters: BatchCounters) -> batch_pb2.BatchCounters:
    return batch_pb2.BatchCounters(
        waiting=counters.waiting,
        running=counters.running,
        succeeded=counters.succeeded,
        failed=counters.failed,
        skipped=counters.skipped,
    )


def batch_state_number(state: BatchState) -> batch_pb2.BatchState.ValueType:
    return batch_pb2.BatchState.Value(f"BATCH_STATE_{state.name}")


def creation_message(creation: BatchCreation) -> pb.CreateBatchResponse:
    return pb.CreateBatchResponse(batch=batch_message(creation.batch), replayed=creation.replayed)


def retried_message(retried: ItemsRetried) -> pb.RetryBatchItemsResponse:
    return pb.RetryBatchItemsResponse(
        batch=batch_message(retried.batch), count=retried.count, replayed=retried.replayed
    )


def reading_message(reading: BatchReading, *, inside: bool) -> pb.GetBatchResponse:
    return pb.GetBatchResponse(
        batch=batch_message(reading.batch),
        failed_items=pages.fitting(item_message(each, inside=inside) for each in reading.failed_items),
    )


def batch_page(page: Page[Batch]) -> pb.ListBatchesResponse:
    batches, token = pages.fitted(page, batch_message)
    return pb.ListBatchesResponse(batches=batches, next_page_token=token)


def item_page(page: Page[BatchItem], *, inside: bool) -> pb.ListBatchItemsResponse:
    items, token = pages.fitted(page, partial(item_message, inside=inside))
    return pb.ListBatchItemsResponse(items=items, next_page_token=token)


def estimate_message(estimate: BatchEstimate) -> pb.EstimateBatchResponse:
    return pb.EstimateBatchResponse(
        estimate=batch_pb2.BatchEstimate(
            size=estimate.size, cost=f"{estimate.cost:f}", work_time=duration(estimate.work_time)
        )
    )


def watched_message(watched: WatchedBatch, *, inside: bool) -> pb.WatchBatchResponse:
    """Render an update with the cursor to resume from behind it."""
    message = pb.WatchBatchResponse(cursor=watched.cursor)
    match watched.update:
        case BatchEvent() as event:
            message.event.CopyFrom(event_message(event, inside=inside))
        case BatchCounters() as counters:
            message.counters.CopyFrom(counters_message(counters))
        case KeepAlive():
            message.keep_alive.SetInParent()
        case EndReason() as reason:
            message.ended.reason = END_REASONS[reason]
        case _:
            assert_never(watched.update)
    return message
