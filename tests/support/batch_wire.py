"""Batches over gRPC, with what executors do to their items done in the database."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from shared.domain.attempts import AttemptEnd
from shared.domain.identity import BatchId
from shared.gen.baton.v1 import batch_pb2, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import batches
from tests.support.control_service import Control
from tests.support.watches import PATIENCE_SECONDS

NO_BATCH = "00000000-0000-7000-8000-00000000000b"


async def create(control: Control, size: int = 3, *, metadata: Any = (), **fields: Any) -> batch_pb2.Batch:
    """Create a batch of synthetic items and return it as the service shows it."""
    fields = {"job_type": "synthetic", "inputs": [b"{}"] * size, **fields}
    response = await control.stub.CreateBatch(pb.CreateBatchRequest(**fields), metadata=metadata)
    created: batch_pb2.Batch = response.batch
    return created


async def end(
    control: Control, batch: batch_pb2.Batch, ends: dict[int, AttemptEnd], attempt: int = 1
) -> None:
    """End items, as executors do."""
    await batches.end(control.transactions, id_of(batch), ends, attempt=attempt)


async def start(control: Control, batch: batch_pb2.Batch, *items: int, attempt: int = 1) -> None:
    """Lease items, as executors do."""
    await batches.start(control.transactions, id_of(batch), items, attempt=attempt)


async def shown(control: Control, batch: batch_pb2.Batch, *, metadata: Any = ()) -> pb.GetBatchResponse:
    request = pb.GetBatchRequest(batch_id=batch.batch_id)
    response: pb.GetBatchResponse = await control.stub.GetBatch(request, metadata=metadata)
    return response


def watch(control: Control, batch: batch_pb2.Batch, *, metadata: Any = (), **fields: Any) -> Any:
    return control.stub.WatchBatch(pb.WatchBatchRequest(batch_id=batch.batch_id, **fields), metadata=metadata)


async def next_update(watched: Any) -> pb.WatchBatchResponse:
    async with asyncio.timeout(PATIENCE_SECONDS):
        message: pb.WatchBatchResponse = await watched.read()
    return message


async def next_change(watched: Any) -> pb.WatchBatchResponse:
    """The next message that tells of something; a busy machine may come to keep a watch alive before."""
    message = await next_update(watched)
    while message.HasField("keep_alive"):
        message = await next_update(watched)
    return message


async def rest_of(watched: Any) -> list[pb.WatchBatchResponse]:
    """All messages of a watch, up to its own last word."""
    messages = list[pb.WatchBatchResponse]()
    while not (messages and messages[-1].HasField("ended")):
        messages.append(await next_update(watched))
    return messages


def told(messages: list[pb.WatchBatchResponse]) -> list[str]:
    return [told_once(each) for each in messages]


def told_once(message: pb.WatchBatchResponse) -> str:
    """A message in short: `RUNNING 2/1/0/0/0`, `item 2 FAILED`, `counters 1/2/0/0/0`, `ended FINISHED`."""
    match message.WhichOneof("update"):
        case "event" if message.event.item:
            state = job_pb2.JobState.Name(message.event.item_state).removeprefix("JOB_STATE_")
            return f"item {message.event.item} {state}"
        case "event":
            return f"{state_of(message.event.state)} {counted(message.event.counters)}"
        case "counters":
            return f"counters {counted(message.counters)}"
        case "ended":
            reason = pb.WatchEndReason.Name(message.ended.reason)
            return f"ended {reason.removeprefix('WATCH_END_REASON_')}"
        case _:
            return "keep-alive"


def counted(counters: batch_pb2.BatchCounters) -> str:
    """Waiting, running, succeeded, failed, skipped."""
    places = (counters.waiting, counters.running, counters.succeeded, counters.failed, counters.skipped)
    return "/".join(map(str, places))


def state_of(state: batch_pb2.BatchState.ValueType) -> str:
    return batch_pb2.BatchState.Name(state).removeprefix("BATCH_STATE_")


def id_of(batch: batch_pb2.Batch) -> BatchId:
    return BatchId(UUID(batch.batch_id))
