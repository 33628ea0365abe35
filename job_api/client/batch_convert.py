"""Batches, from protobuf to views."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from job_api.client import convert
from job_api.client.batch_views import (
    BatchEstimateView,
    BatchItemView,
    BatchUpdate,
    BatchView,
    ItemsRetriedView,
)
from shared.domain.batches import BatchCounters, BatchEvent, BatchState
from shared.domain.identity import BatchId, JobId, JobType, Owner
from shared.gen.baton.v1 import batch_pb2, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb


def batch_view(
    batch: batch_pb2.Batch, *, failed_items: list[BatchItemView] | None = None, replayed: bool = False
) -> BatchView:
    return BatchView(
        batch_id=BatchId(UUID(batch.batch_id)),
        job_type=JobType(batch.job_type),
        owner=Owner(batch.owner),
        state=state(batch.state),
        title=batch.title,
        size=batch.size,
        counters=counters(batch.counters),
        progress=batch.progress,
        target=convert.optional(batch, "target", convert.target),
        create_time=convert.time(batch.create_time),
        start_time=convert.optional(batch, "start_time", convert.time),
        settle_time=convert.optional(batch, "settle_time", convert.time),
        labels=dict(batch.labels),
        last_event_number=batch.last_event_number,
        failed_items=failed_items,
        replayed=replayed,
    )


def created_view(response: pb.CreateBatchResponse) -> BatchView:
    return batch_view(response.batch, replayed=response.replayed)


def read_view(response: pb.GetBatchResponse) -> BatchView:
    return batch_view(response.batch, failed_items=[*map(item_view, response.failed_items)])


def item_view(item: batch_pb2.BatchItem) -> BatchItemView:
    return BatchItemView(
        number=item.number,
        job=convert.job_view(item.job),
        earlier_job_ids=[JobId(UUID(each)) for each in item.earlier_job_ids],
        attempt_count=item.attempt_count,
        selected=item.selected,
    )


def estimate_view(response: pb.EstimateBatchResponse) -> BatchEstimateView:
    told = response.estimate
    return BatchEstimateView(told.size, Decimal(told.cost), told.work_time.ToTimedelta())


def retried_view(response: pb.RetryBatchItemsResponse) -> ItemsRetriedView:
    return ItemsRetriedView(batch_view(response.batch), response.count, response.replayed)


def counters(told: batch_pb2.BatchCounters) -> BatchCounters:
    return BatchCounters(
        waiting=told.waiting,
        running=told.running,
        succeeded=told.succeeded,
        failed=told.failed,
        skipped=told.skipped,
    )


def state(value: batch_pb2.BatchState.ValueType) -> BatchState:
    return BatchState[batch_pb2.BatchState.Name(value).removeprefix("BATCH_STATE_")]


def state_number(value: BatchState) -> batch_pb2.BatchState.ValueType:
    """Its word will do as well; a ValueError refuses any other."""
    return batch_pb2.BatchState.Value(f"BATCH_STATE_{BatchState(value).name}")


def update(message: pb.WatchBatchResponse) -> BatchUpdate | None:
    """Return what a watcher should know of a message; None of one that only keeps the stream alive."""
    match message.WhichOneof("update"):
        case "event":
            return BatchUpdate(message.cursor, event(message.event))
        case "counters":
            return BatchUpdate(message.cursor, counters(message.counters))
        case _:
            return None


def event(told: batch_pb2.BatchEvent) -> BatchEvent:
    ended = told.item_state != job_pb2.JOB_STATE_UNSPECIFIED
    return BatchEvent(
        batch_id=BatchId(UUID(told.batch_id)),
        number=told.number,
        state=state(told.state),
        counters=counters(told.counters),
        event_time=convert.time(told.event_time),
        item=told.item,
        item_state=convert.state(told.item_state) if ended else None,
        error=convert.optional(told, "error", convert.error),
    )
