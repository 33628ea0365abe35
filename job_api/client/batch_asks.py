"""What can be asked of JobControl about batches; see `asks`."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TypedDict

from job_api.client import batch_convert, convert
from job_api.client.asks import Ask, Input, Listing, json_text, listing, require_known, timestamp
from job_api.client.batch_views import (
    BatchEstimateView,
    BatchItemView,
    BatchUpdate,
    BatchView,
    ItemsRetriedView,
)
from job_api.client.watching import Stream
from shared.domain.batches import BatchState
from shared.domain.identity import BatchId
from shared.domain.jobs import JobState, Target
from shared.gen.baton.v1 import job_control_pb2 as pb


class BatchOptions(TypedDict, total=False):
    """What may be said about a new batch besides its type and inputs; everything may be left out.

    Attributes:
        idempotency_key: 8 to 128 visible ASCII characters. Without one, a key of this call's own makes its
            tries safe, and the next call creates another batch.
        title: For people; at most 200 characters.
        target: What it is about.
        priority: Of all items, 0 first to 100 last; the definition's if it is left out.
        owner: Whom to create it for, where the caller may.
    """

    idempotency_key: str | None
    title: str
    target: Target | None
    priority: int | None
    labels: Mapping[str, str] | None
    owner: str


class BatchFilter(TypedDict, total=False):
    """Which batches: what is said must all fit; nothing said means all of the caller's.

    Attributes:
        created_from: Created at or after; aware.
        created_to: Created before; aware.
        target: About this; its id may be empty for all of the type.
        owner: Whose they are, where the caller may name others; an admin who names none means everyone's.
        text: Held by the title; 3 to 100 characters.
    """

    states: Collection[BatchState]
    job_type: str
    created_from: datetime | None
    created_to: datetime | None
    target: Target | None
    owner: str
    text: str


def estimate_batch(job_type: str, size: int) -> Ask[BatchEstimateView]:
    request = pb.EstimateBatchRequest(job_type=job_type, size=size)
    return Ask("EstimateBatch", request, batch_convert.estimate_view)


def create_batch(job_type: str, inputs: Iterable[Input], options: BatchOptions) -> Ask[BatchView]:
    """Create a batch under a key, the caller's or one of its own."""
    require_known(BatchOptions, options)
    priority = options.get("priority")
    request = pb.CreateBatchRequest(
        job_type=job_type,
        inputs=[each if isinstance(each, bytes) else json_text(each) for each in inputs],
        idempotency_key=options.get("idempotency_key") or uuid.uuid4().hex,
        title=options.get("title", ""),
        target=convert.target_message(options.get("target")),
        overrides=pb.JobOverrides(priority=priority) if priority is not None else None,
        labels=options.get("labels"),
        owner=options.get("owner", ""),
    )
    return Ask("CreateBatch", request, batch_convert.created_view)


def get_batch(batch_id: BatchId) -> Ask[BatchView]:
    return Ask("GetBatch", pb.GetBatchRequest(batch_id=str(batch_id)), batch_convert.read_view)


def list_batches(which: BatchFilter, *, page_size: int) -> Listing[BatchView]:
    require_known(BatchFilter, which)
    request = pb.ListBatchesRequest(
        states=[batch_convert.state_number(each) for each in which.get("states", ())],
        job_type=which.get("job_type", ""),
        create_time_from=timestamp(which.get("created_from")),
        create_time_to=timestamp(which.get("created_to")),
        target=convert.target_message(which.get("target")),
        owner=which.get("owner", ""),
        text=which.get("text", ""),
        page_size=page_size,
    )
    return listing("ListBatches", request, "batches", batch_convert.batch_view)


def list_batch_items(
    batch_id: BatchId, *, states: Collection[JobState], page_size: int
) -> Listing[BatchItemView]:
    numbers = [convert.state_number(each) for each in states]
    request = pb.ListBatchItemsRequest(batch_id=str(batch_id), states=numbers, page_size=page_size)
    return listing("ListBatchItems", request, "items", batch_convert.item_view)


def cancel_batch(batch_id: BatchId) -> Ask[BatchView]:
    request = pb.CancelBatchRequest(batch_id=str(batch_id))
    return Ask("CancelBatch", request, lambda told: batch_convert.batch_view(told.batch))


def retry_batch_items(
    batch_id: BatchId, items: Collection[int] | None, idempotency_key: str | None
) -> Ask[ItemsRetriedView]:
    """Try items again under a key, the caller's or one of its own."""
    if items is not None and not items:
        raise ValueError("name at least one item; None is for all that failed")
    request = pb.RetryBatchItemsRequest(
        batch_id=str(batch_id), items=items, idempotency_key=idempotency_key or uuid.uuid4().hex
    )
    return Ask("RetryBatchItems", request, batch_convert.retried_view)


def select_batch_items(batch_id: BatchId, items: Collection[int]) -> Ask[BatchView]:
    request = pb.SelectBatchItemsRequest(batch_id=str(batch_id), items=items)
    return Ask("SelectBatchItems", request, lambda told: batch_convert.batch_view(told.batch))


def advance_batch(batch_id: BatchId, state: BatchState) -> Ask[BatchView]:
    request = pb.AdvanceBatchRequest(batch_id=str(batch_id), state=batch_convert.state_number(state))
    return Ask("AdvanceBatch", request, lambda told: batch_convert.batch_view(told.batch))


def watch_batch(batch_id: BatchId, *, after: int, cursor: str) -> Stream[BatchUpdate]:
    first = pb.WatchBatchRequest(batch_id=str(batch_id), after_event_number=after, cursor=cursor)

    def behind(cursor: str) -> pb.WatchBatchRequest:
        return pb.WatchBatchRequest(batch_id=str(batch_id), cursor=cursor)

    return Stream("WatchBatch", first, behind, batch_convert.update)
