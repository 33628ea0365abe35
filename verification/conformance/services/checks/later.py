"""The calls that a version may not have yet: they say so, or do as the protocol says.

Each is made so that it changes nothing, whatever it does: about what is not there, or with nothing asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import Message

from shared.gen.baton.v1 import batch_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.conformance.services.check import Theme
from verification.conformance.services.checks.errors import NO_JOB
from verification.conformance.services.refusals import require_well_formed
from verification.conformance.services.target import Target
from verification.peers.control import Refused
from verification.unmet import require

UNIMPLEMENTED = "UNIMPLEMENTED"
_OK = "OK"
_REFUSAL_SECONDS_MAX = 10.0

_Case = tuple[str, Message, Sequence[str]]

_REFUSED: Sequence[_Case] = (
    ("CancelJobs", pb.CancelJobsRequest(), ("INVALID_INPUT",)),
    ("RetryJob", pb.RetryJobRequest(job_id=NO_JOB), ("JOB_NOT_FOUND",)),
    ("RetryJobs", pb.RetryJobsRequest(), ("INVALID_INPUT",)),
    ("EstimateBatch", pb.EstimateBatchRequest(job_type="no_such_type", size=1), ("UNKNOWN_JOB_TYPE",)),
    ("EstimateBatch", pb.EstimateBatchRequest(job_type="synthetic"), ("INVALID_INPUT",)),
    ("CreateBatch", pb.CreateBatchRequest(job_type="synthetic"), ("INVALID_INPUT",)),
    ("GetBatch", pb.GetBatchRequest(batch_id=NO_JOB), ("BATCH_NOT_FOUND",)),
    ("ListBatches", pb.ListBatchesRequest(page_size=-1), ("INVALID_INPUT",)),
    ("ListBatchItems", pb.ListBatchItemsRequest(batch_id=NO_JOB), ("BATCH_NOT_FOUND",)),
    ("CancelBatch", pb.CancelBatchRequest(batch_id=NO_JOB), ("BATCH_NOT_FOUND",)),
    ("RetryBatchItems", pb.RetryBatchItemsRequest(batch_id=NO_JOB), ("BATCH_NOT_FOUND",)),
    ("SelectBatchItems", pb.SelectBatchItemsRequest(batch_id=NO_JOB, items=[1]), ("BATCH_NOT_FOUND",)),
    (
        "AdvanceBatch",
        pb.AdvanceBatchRequest(batch_id=NO_JOB, state=batch_pb2.BATCH_STATE_EXPORTED),
        ("BATCH_NOT_FOUND",),
    ),
    ("ListEvents", pb.ListEventsRequest(cursor="nonsense"), ("INVALID_INPUT",)),
    ("ExplainJob", pb.ExplainJobRequest(job_id=NO_JOB), ("JOB_NOT_FOUND",)),
    ("Pause", pb.PauseRequest(), ("INVALID_INPUT",)),
    ("Pause", pb.PauseRequest(queue="no-such-queue"), ("INVALID_INPUT",)),
    ("Resume", pb.ResumeRequest(), ("INVALID_INPUT",)),
    ("Resume", pb.ResumeRequest(job_type="no_such_type"), ("INVALID_INPUT", "UNKNOWN_JOB_TYPE")),
    ("ListExecutors", pb.ListExecutorsRequest(page_token="nonsense"), ("INVALID_PAGE_TOKEN",)),
    ("ListOutboxMessages", pb.ListOutboxMessagesRequest(page_token="nonsense"), ("INVALID_PAGE_TOKEN",)),
    ("ListAuditRecords", pb.ListAuditRecordsRequest(page_token="nonsense"), ("INVALID_PAGE_TOKEN",)),
)
"""What must be refused, where the call is known, and with which reasons."""

_ANSWERED: Sequence[_Case] = (
    ("ListBatches", pb.ListBatchesRequest(page_size=1), (_OK,)),
    ("ListEvents", pb.ListEventsRequest(page_size=1), (_OK,)),
    ("ListQueues", pb.ListQueuesRequest(page_size=1), (_OK,)),
    ("ListExecutors", pb.ListExecutorsRequest(page_size=1), (_OK,)),
    ("ListOutboxMessages", pb.ListOutboxMessagesRequest(page_size=1), (_OK,)),
    ("ResendOutboxMessages", pb.ResendOutboxMessagesRequest(outbox_ids=[2**62]), (_OK, "INVALID_INPUT")),
    ("ListAuditRecords", pb.ListAuditRecordsRequest(page_size=1), (_OK,)),
)
"""What must be answered, where the call is known."""

_STREAMS: Sequence[_Case] = (
    ("WatchJobs", pb.WatchJobsRequest(filter=pb.JobFilter(text="ab")), ("INVALID_INPUT",)),
    ("WatchBatch", pb.WatchBatchRequest(batch_id=NO_JOB), ("BATCH_NOT_FOUND",)),
    ("WatchEvents", pb.WatchEventsRequest(cursor="nonsense"), ("INVALID_INPUT",)),
)


async def calls_about_what_is_not_there(target: Target) -> None:
    """A call that is known refuses, with its reason, what is not there; one that is not is UNIMPLEMENTED."""
    for method, request, allowed in _REFUSED:
        await _require_allowed(method, target.control.call(method, request), allowed)


async def calls_that_list(target: Target) -> None:
    """A list that is known is answered; one that is not is UNIMPLEMENTED."""
    for method, request, allowed in _ANSWERED:
        await _require_allowed(method, target.control.call(method, request), allowed)


async def streams(target: Target) -> None:
    """A stream that is known refuses, with its reason, what is not there; another is UNIMPLEMENTED."""
    for method, request, allowed in _STREAMS:
        stream = getattr(target.job_control, method)(request, metadata=target.metadata)
        try:
            await _require_allowed(method, _first(target, method, stream), allowed)
        finally:
            stream.cancel()


async def _first(target: Target, method: str, stream: Any) -> Any:
    async with asyncio.timeout(_REFUSAL_SECONDS_MAX):
        return await target.answered(method, stream.read())


async def _require_allowed(method: str, call: Any, allowed: Sequence[str]) -> None:
    try:
        await call
    except Refused as error:
        if error.status == UNIMPLEMENTED:
            return
        require_well_formed(error, when=method)
        right = error.reason in allowed or error.reason == "PERMISSION_DENIED"
        require(right, f"{method} is refused with {error}, not as one of {list(allowed)}")
    else:
        require(_OK in allowed, f"{method} is answered, and {list(allowed)} was expected")


THEME = Theme("later calls", (calls_about_what_is_not_there, calls_that_list, streams))
