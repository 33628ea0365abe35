"""What a caller does with batches, over one connection to JobControl."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from shared.gen.baton.v1 import batch_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.evidence.tables import LABEL
from verification.peers.control import AWAY, PATIENCE_SECONDS, Control, Refused
from verification.unmet import Unmet

_AGAIN_SECONDS = 0.2


class Batches:
    """Every call is made until it is answered, so that it may be made through outages."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def create(
        self, items: Sequence[Mapping[str, Any]], *, seconds: float = PATIENCE_SECONDS
    ) -> batch_pb2.Batch:
        """Create a batch of synthetic work of this run; its key makes repeating safe."""
        request = pb.CreateBatchRequest(
            job_type="synthetic",
            inputs=[json.dumps(each).encode() for each in items],
            idempotency_key=uuid4().hex,
            labels={LABEL: self._control.run},
        )
        answer: pb.CreateBatchResponse = await self._control.insist("CreateBatch", request, seconds=seconds)
        return answer.batch

    async def get(self, batch_id: str) -> pb.GetBatchResponse:
        answer: pb.GetBatchResponse = await self._control.insist(
            "GetBatch", pb.GetBatchRequest(batch_id=batch_id)
        )
        return answer

    async def cancel(self, batch_id: str) -> batch_pb2.Batch:
        answer: pb.CancelBatchResponse = await self._control.insist(
            "CancelBatch", pb.CancelBatchRequest(batch_id=batch_id)
        )
        return answer.batch

    async def retry(self, batch_id: str) -> int:
        """Try all failed items again, and return how many there are."""
        answer = await self._control.insist("RetryBatchItems", pb.RetryBatchItemsRequest(batch_id=batch_id))
        return int(answer.count)

    async def watch_to_end(
        self, batch_id: str, *, after: int = 0, seconds: float = PATIENCE_SECONDS
    ) -> Sequence[batch_pb2.BatchEvent]:
        """Watch until the batch settles, resume whenever the stream breaks, and return all events.

        Args:
            after: Begin after the event of this number.

        Raises:
            Unmet: It has not settled in this time.
        """
        events: list[batch_pb2.BatchEvent] = []
        request = pb.WatchBatchRequest(batch_id=batch_id, after_event_number=after)
        try:
            async with asyncio.timeout(seconds):
                while not await self._watch(request, events):  # noqa: ASYNC110 - each time asks the service
                    await asyncio.sleep(_AGAIN_SECONDS)
        except TimeoutError:
            raise Unmet(f"batch {batch_id} did not settle within {seconds:.0f} s") from None
        return events

    async def _watch(self, request: pb.WatchBatchRequest, events: list[batch_pb2.BatchEvent]) -> bool:
        """Watch once, and move the request's cursor on; return whether the batch has settled."""
        try:
            async for update in self._control.streamed("WatchBatch", request):
                request.cursor = update.cursor or request.cursor
                if update.HasField("event"):
                    events.append(update.event)
                if update.HasField("ended"):
                    return bool(update.ended.reason == pb.WATCH_END_REASON_FINISHED)
        except Refused as refused:
            if refused.status not in AWAY:
                raise
        return False
