"""From requests about batches to commands, with a check of every single field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from job_api.operations.create_batch import CreateBatchCommand
from job_api.operations.list_batches import BatchFilter
from job_api.operations.paging import PageRequest
from job_api.operations.retry_batch_items import RetryBatchItemsCommand
from job_api.operations.watch_batch import WatchBatchCommand
from job_api.rpc import convert
from job_api.rpc.fields import NAME_CHARACTERS_MAX, Fields
from shared.domain.batches import BATCH_TRANSITIONS, BatchChange, BatchState
from shared.domain.identity import BatchId, JobType
from shared.domain.jobs import JobState
from shared.gen.baton.v1 import batch_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb

TITLE_CHARACTERS_MAX = 200

_STATES: Mapping[int, BatchState] = {
    value: BatchState[name.removeprefix("BATCH_STATE_")]
    for name, value in batch_pb2.BatchState.items()
    if value != batch_pb2.BATCH_STATE_UNSPECIFIED
}
_ADVANCED = frozenset(BATCH_TRANSITIONS[each].target for each in (BatchChange.EXPORTED, BatchChange.STORED))
"""The states that AdvanceBatch leads to."""


def batch_id_of(value: str) -> BatchId:
    with Fields() as fields:
        return fields.batch_id("batch_id", value)


def create_batch_command(
    request: pb.CreateBatchRequest, *, items_max: int, labels_max: int, traceparent: str
) -> CreateBatchCommand:
    with Fields() as fields:
        job_type = _required_type(fields, request.job_type)
        if not 1 <= len(request.inputs) <= items_max:
            fields.refuse("inputs", f"must have 1 to {items_max} items")
        return CreateBatchCommand(
            job_type=job_type,
            inputs=list(request.inputs),
            key=convert.idempotency_key(fields, request),
            title=fields.text("title", request.title, most=TITLE_CHARACTERS_MAX),
            target=convert.target(fields, request.target) if request.HasField("target") else None,
            overrides=convert.overrides(fields, request.overrides),
            labels=fields.labels("labels", request.labels, most=labels_max),
            owner=fields.owner("owner", request.owner),
            traceparent=convert.trace_context(traceparent),
        )


def estimate(request: pb.EstimateBatchRequest, *, items_max: int) -> tuple[str, int]:
    """Return job type and size."""
    with Fields() as fields:
        job_type = _required_type(fields, request.job_type)
        if not 1 <= request.size <= items_max:
            fields.refuse("size", f"must be 1 to {items_max}")
        return job_type, request.size


def batch_list(request: pb.ListBatchesRequest) -> tuple[BatchFilter, PageRequest]:
    with Fields() as fields:
        states = _batch_states(fields, request.states)
        job_type = fields.text("job_type", request.job_type, most=NAME_CHARACTERS_MAX)
        created_from, created_to = (
            fields.time(request, name) for name in ("create_time_from", "create_time_to")
        )
        target_type, target_id = convert.wanted_target(fields, request)
        owner = fields.owner("owner", request.owner)
        batch_filter = BatchFilter(
            owner=owner,
            states=states,
            job_type=JobType(job_type) if job_type else None,
            created_from=created_from,
            created_to=created_to,
            target_type=target_type,
            target_id=target_id,
            text=fields.searched("text", request.text),
        )
        return batch_filter, fields.page(request)


def item_list(request: pb.ListBatchItemsRequest) -> tuple[BatchId, frozenset[JobState], PageRequest]:
    with Fields() as fields:
        batch_id = fields.batch_id("batch_id", request.batch_id)
        return batch_id, convert.job_states(fields, "states", request.states), fields.page(request)


def retry_command(
    request: pb.RetryBatchItemsRequest, *, items_max: int, traceparent: str
) -> RetryBatchItemsCommand:
    with Fields() as fields:
        return RetryBatchItemsCommand(
            fields.batch_id("batch_id", request.batch_id),
            items=_items(fields, request.items, items_max),
            key=convert.idempotency_key(fields, request),
            traceparent=convert.trace_context(traceparent),
        )


def selection(request: pb.SelectBatchItemsRequest, *, items_max: int) -> tuple[BatchId, frozenset[int]]:
    with Fields() as fields:
        batch_id = fields.batch_id("batch_id", request.batch_id)
        if not request.items:
            fields.refuse("items", "must name at least one item")
        return batch_id, _items(fields, request.items, items_max)


def advance(request: pb.AdvanceBatchRequest) -> tuple[BatchId, BatchState]:
    with Fields() as fields:
        batch_id = fields.batch_id("batch_id", request.batch_id)
        state = _STATES.get(request.state)
        if state not in _ADVANCED:
            fields.refuse("state", f"must be {' or '.join(sorted(_ADVANCED))}")
        return batch_id, state or BatchState.EXPORTED


def watch_command(request: pb.WatchBatchRequest) -> WatchBatchCommand:
    with Fields() as fields:
        batch_id = fields.batch_id("batch_id", request.batch_id)
        return WatchBatchCommand(batch_id, convert.after_event(fields, request), request.cursor)


def _required_type(fields: Fields, job_type: str) -> str:
    return fields.text("job_type", job_type, least=1, most=NAME_CHARACTERS_MAX)


def _batch_states(fields: Fields, states: Sequence[int]) -> frozenset[BatchState]:
    for index, state in enumerate(states):
        if state not in _STATES:
            fields.refuse(f"states[{index}]", "is not a state of a batch")
    return frozenset(_STATES[each] for each in states if each in _STATES)


def _items(fields: Fields, numbers: Sequence[int], items_max: int) -> frozenset[int]:
    if len(numbers) > items_max:
        fields.refuse("items", f"has more than {items_max} entries")
        return frozenset()
    for index, number in enumerate(numbers):
        if not 1 <= number <= items_max:
            fields.refuse(f"items[{index}]", f"must be 1 to {items_max}")
    return frozenset(numbers)
