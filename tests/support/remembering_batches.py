"""What a JobControl that answers from memory tells of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from shared.gen.baton.v1 import batch_pb2, job_control_pb2_grpc, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support.scripted_control import a_job

BATCH = "0197f3f0-0000-7000-8000-0000000000b1"
BROKEN = job_pb2.JobError(code="INPUT_BROKEN", message="[red]no image")


class RememberingBatches(job_control_pb2_grpc.JobControlServicer):
    """One batch, told as it is set here."""

    def __init__(self) -> None:
        self.batch = a_batch()
        self.failed_items: list[batch_pb2.BatchItem] = []
        self.batch_updates: list[pb.WatchBatchResponse] = []
        self.batch_requests: list[Any] = []

    def EstimateBatch(self, request: Any, context: Any) -> pb.EstimateBatchResponse:
        self._hear(request, context)
        estimate = batch_pb2.BatchEstimate(size=request.size, cost="0.60", work_time=Duration(seconds=90))
        return pb.EstimateBatchResponse(estimate=estimate)

    def CreateBatch(self, request: Any, context: Any) -> pb.CreateBatchResponse:
        self._hear(request, context)
        return pb.CreateBatchResponse(batch=self.batch)

    def GetBatch(self, request: Any, context: Any) -> pb.GetBatchResponse:
        self._hear(request, context)
        return pb.GetBatchResponse(batch=self.batch, failed_items=self.failed_items)

    def ListBatches(self, request: Any, context: Any) -> pb.ListBatchesResponse:
        self._hear(request, context)
        return pb.ListBatchesResponse(batches=[self.batch, self.batch], next_page_token="more")

    def ListBatchItems(self, request: Any, context: Any) -> pb.ListBatchItemsResponse:
        self._hear(request, context)
        items = [an_item(number, job_pb2.JOB_STATE_SUCCEEDED) for number in (1, 3)]
        return pb.ListBatchItemsResponse(items=items)

    def CancelBatch(self, request: Any, context: Any) -> pb.CancelBatchResponse:
        self._hear(request, context)
        return pb.CancelBatchResponse(batch=self.batch)

    def RetryBatchItems(self, request: Any, context: Any) -> pb.RetryBatchItemsResponse:
        self._hear(request, context)
        return pb.RetryBatchItemsResponse(batch=self.batch, count=len(request.items) or 7)

    def SelectBatchItems(self, request: Any, context: Any) -> pb.SelectBatchItemsResponse:
        self._hear(request, context)
        return pb.SelectBatchItemsResponse(batch=self.batch)

    def AdvanceBatch(self, request: Any, context: Any) -> pb.AdvanceBatchResponse:
        self._hear(request, context)
        return pb.AdvanceBatchResponse(batch=self.batch)

    def WatchBatch(self, request: Any, context: Any) -> Iterator[pb.WatchBatchResponse]:
        self._hear(request, context)
        yield from self.batch_updates

    def settles(self, state: batch_pb2.BatchState.ValueType, *, failed: int) -> None:
        """Have the batch of three items settle so, after some counters and a failed item."""
        counters = some_counters(succeeded=3 - failed, failed=failed)
        self.batch = a_batch(state=state, counters=counters)
        self.batch_updates = [
            pb.WatchBatchResponse(counters=some_counters(waiting=1, running=2), cursor="a"),
            pb.WatchBatchResponse(event=an_event(2, batch_pb2.BATCH_STATE_RUNNING), cursor="b"),
        ]
        if failed:
            event = an_event(
                3,
                batch_pb2.BATCH_STATE_RUNNING,
                counters=some_counters(waiting=1, running=1, failed=1),
                item=2,
                item_state=job_pb2.JOB_STATE_FAILED,
                error=BROKEN,
            )
            self.batch_updates.append(pb.WatchBatchResponse(event=event, cursor="c"))
        self.batch_updates += [
            pb.WatchBatchResponse(event=an_event(4, state, counters=counters), cursor="d"),
            pb.WatchBatchResponse(ended=pb.WatchEnded(reason=pb.WATCH_END_REASON_FINISHED), cursor="d"),
        ]

    def _hear(self, request: Any, context: Any) -> None:
        self._refuse(context)
        self.batch_requests.append(request)

    def _refuse(self, context: Any) -> None:
        """End the call if it is to be refused; another part says how."""
        raise NotImplementedError


def a_batch(**fields: Any) -> batch_pb2.Batch:
    told: dict[str, Any] = {
        "batch_id": BATCH,
        "job_type": "synthetic",
        "owner": "local",
        "state": batch_pb2.BATCH_STATE_QUEUED,
        "title": "[red]night",
        "size": 3,
        "counters": some_counters(waiting=3),
        "create_time": Timestamp(seconds=1_900_000_000),
        "last_event_number": 1,
        **fields,
    }
    return batch_pb2.Batch(**told)


def an_item(number: int, state: job_pb2.JobState.ValueType, **fields: Any) -> batch_pb2.BatchItem:
    return batch_pb2.BatchItem(
        number=number, job=a_job(state=state, batch_id=BATCH, batch_item=number), attempt_count=1, **fields
    )


def an_event(number: int, state: batch_pb2.BatchState.ValueType, **fields: Any) -> batch_pb2.BatchEvent:
    fields.setdefault("counters", some_counters(waiting=1, running=2))
    return batch_pb2.BatchEvent(
        batch_id=BATCH, number=number, state=state, event_time=Timestamp(seconds=1), **fields
    )


def some_counters(**counts: int) -> batch_pb2.BatchCounters:
    return batch_pb2.BatchCounters(**counts)
