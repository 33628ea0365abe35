"""JobControl on the wire: parse, ask one operation, render."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from job_api.operations.cancel_job import CancelJob
from job_api.operations.cancel_jobs import CancelJobs
from job_api.operations.create_jobs import CreateJob, CreateJobs
from job_api.operations.get_job import GetJob
from job_api.operations.get_job_output import GetJobOutput
from job_api.operations.list_artifacts import ListArtifacts
from job_api.operations.list_attempts import ListAttempts
from job_api.operations.list_events import ListEvents
from job_api.operations.list_job_definitions import ListJobDefinitions
from job_api.operations.list_jobs import ListJobs
from job_api.operations.retry_job import RetryJob
from job_api.operations.retry_jobs import RetryJobs
from job_api.operations.upload_input import UploadInput
from job_api.operations.watch_events import WatchEvents
from job_api.operations.watch_job import WatchJob
from job_api.operations.watch_jobs import WatchJobs
from job_api.rpc import convert, messages, pages, selected_messages, upload_messages
from job_api.rpc.batch_servicer import BatchOperations, BatchServicer
from job_api.rpc.calls import Context, RequestLimits, traceparent
from job_api.rpc.feed_messages import event_types, feed_page, watched_feed
from job_api.rpc.fields import Fields
from job_api.rpc.live_messages import live_message
from job_api.rpc.operator_servicer import OperatorOperations, OperatorServicer
from job_api.rpc.outcome_messages import creation_message, outcome_message
from job_api.rpc.watch_messages import watch_message
from shared.domain.scopes import JOBS_ADMIN, JOBS_READ, JOBS_WRITE
from shared.gen.baton.v1 import job_control_pb2 as pb

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["JobControl"].full_name

SCOPES: Mapping[str, str] = MappingProxyType(
    {
        "CreateJob": JOBS_WRITE,
        "CreateJobs": JOBS_WRITE,
        "UploadInput": JOBS_WRITE,
        "GetJob": JOBS_READ,
        "GetJobOutput": JOBS_READ,
        "ListJobs": JOBS_READ,
        "ListAttempts": JOBS_READ,
        "ListArtifacts": JOBS_READ,
        "ListJobDefinitions": JOBS_READ,
        "CancelJob": JOBS_WRITE,
        "CancelJobs": JOBS_WRITE,
        "RetryJob": JOBS_WRITE,
        "RetryJobs": JOBS_WRITE,
        "WatchJob": JOBS_READ,
        "WatchJobs": JOBS_READ,
        "EstimateBatch": JOBS_READ,
        "CreateBatch": JOBS_WRITE,
        "GetBatch": JOBS_READ,
        "ListBatches": JOBS_READ,
        "ListBatchItems": JOBS_READ,
        "CancelBatch": JOBS_WRITE,
        "RetryBatchItems": JOBS_WRITE,
        "SelectBatchItems": JOBS_WRITE,
        "AdvanceBatch": JOBS_WRITE,
        "WatchBatch": JOBS_READ,
        "ListEvents": JOBS_ADMIN,
        "WatchEvents": JOBS_ADMIN,
        "ExplainJob": JOBS_READ,
        "ListQueues": JOBS_ADMIN,
        "Pause": JOBS_ADMIN,
        "Resume": JOBS_ADMIN,
        "ListExecutors": JOBS_ADMIN,
        "ListOutboxMessages": JOBS_ADMIN,
        "ResendOutboxMessages": JOBS_ADMIN,
        "ListAuditRecords": JOBS_ADMIN,
    }
)
"""A method that is not here is refused to everyone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """What JobControl can be asked."""

    create_job: CreateJob
    create_jobs: CreateJobs
    upload_input: UploadInput
    get_job: GetJob
    get_job_output: GetJobOutput
    list_jobs: ListJobs
    list_attempts: ListAttempts
    list_artifacts: ListArtifacts
    list_job_definitions: ListJobDefinitions
    cancel_job: CancelJob
    cancel_jobs: CancelJobs
    retry_job: RetryJob
    retry_jobs: RetryJobs
    watch_job: WatchJob
    watch_jobs: WatchJobs
    list_events: ListEvents
    watch_events: WatchEvents
    for_operators: OperatorOperations
    about_batches: BatchOperations


class JobControlServicer(OperatorServicer, BatchServicer):
    """JobControl on the wire: parse, ask one operation, render."""

    def __init__(self, operations: Operations, limits: RequestLimits) -> None:
        OperatorServicer.__init__(self, operations.for_operators)
        BatchServicer.__init__(self, operations.about_batches, limits)
        self._operations = operations

    async def CreateJob(self, request: pb.CreateJobRequest, context: Context) -> pb.CreateJobResponse:
        caller = convert.caller()
        command = convert.create_job_command(
            request, labels_max=self._limits.labels_max, traceparent=traceparent(context)
        )
        creation = await self._operations.create_job(caller, command)
        return creation_message(creation, inside=caller.sees_all)

    async def CreateJobs(self, request: pb.CreateJobsRequest, context: Context) -> pb.CreateJobsResponse:
        caller = convert.caller()
        wishes = convert.wishes(
            request,
            jobs_max=self._limits.jobs_per_call_max,
            labels_max=self._limits.labels_max,
            traceparent=traceparent(context),
        )
        outcomes = await self._operations.create_jobs(caller, wishes)
        return pb.CreateJobsResponse(
            outcomes=[outcome_message(each, inside=caller.sees_all) for each in outcomes]
        )

    async def UploadInput(self, request_iterator: Any, context: Context) -> pb.UploadInputResponse:
        requests = cast("AsyncIterator[pb.UploadInputRequest]", aiter(request_iterator))
        command = await upload_messages.header(requests)
        chunks = upload_messages.chunks(requests, chunk_bytes_max=self._limits.chunk_bytes_max)
        uploaded = await self._operations.upload_input(convert.caller(), command, chunks)
        return pb.UploadInputResponse(
            upload_id=str(uploaded.upload_id),
            document_bytes=uploaded.document_bytes,
            sha256=uploaded.sha256,
        )

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.GetJobResponse:
        caller = convert.caller()
        shown = await self._operations.get_job(caller, convert.job_id(request.job_id))
        inside = caller.sees_all
        newest_first = (
            messages.attempt_message(each, inside=inside) for each in shown.history.attempts[::-1]
        )
        return pb.GetJobResponse(
            job=messages.job_message(shown.job, inside=inside, artifacts=shown.artifacts),
            attempts=pages.fitting(newest_first)[::-1],
            timings=messages.timings_message(shown.history.timings),
        )

    async def GetJobOutput(
        self, request: pb.GetJobOutputRequest, context: Context
    ) -> pb.GetJobOutputResponse:
        stored = await self._operations.get_job_output(convert.caller(), convert.job_id(request.job_id))
        return pb.GetJobOutputResponse(output=stored.output, output_hash=stored.output_hash)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        caller = convert.caller()
        with Fields() as fields:
            job_filter = convert.job_filter(fields, request.filter)
            asked = fields.page(request)
        page = await self._operations.list_jobs(caller, job_filter, asked)
        jobs, token = pages.fitted(page, partial(messages.job_message, inside=caller.sees_all))
        return pb.ListJobsResponse(jobs=jobs, next_page_token=token)

    async def ListAttempts(
        self, request: pb.ListAttemptsRequest, context: Context
    ) -> pb.ListAttemptsResponse:
        caller = convert.caller()
        with Fields() as fields:
            job_id, asked = fields.job_id(request.job_id), fields.page(request)
        page = await self._operations.list_attempts(caller, job_id, asked)
        attempts, token = pages.fitted(page, partial(messages.attempt_message, inside=caller.sees_all))
        return pb.ListAttemptsResponse(attempts=attempts, next_page_token=token)

    async def ListArtifacts(
        self, request: pb.ListArtifactsRequest, context: Context
    ) -> pb.ListArtifactsResponse:
        with Fields() as fields:
            job_id, asked = fields.job_id(request.job_id), fields.page(request)
        page = await self._operations.list_artifacts(
            convert.caller(), job_id, asked, include_content=request.include_content
        )
        return pb.ListArtifactsResponse(
            artifacts=[messages.artifact_message(each) for each in page.items],
            next_page_token=page.next_token,
        )

    async def ListJobDefinitions(
        self, request: pb.ListJobDefinitionsRequest, context: Context
    ) -> pb.ListJobDefinitionsResponse:
        with Fields() as fields:
            asked = fields.page(request)
        page = await self._operations.list_job_definitions(asked)
        definitions, token = pages.fitted(page, messages.definition_message)
        return pb.ListJobDefinitionsResponse(definitions=definitions, next_page_token=token)

    async def CancelJob(self, request: pb.CancelJobRequest, context: Context) -> pb.CancelJobResponse:
        caller = convert.caller()
        job = await self._operations.cancel_job(caller, convert.job_id(request.job_id))
        return pb.CancelJobResponse(job=messages.job_message(job, inside=caller.sees_all))

    async def CancelJobs(self, request: pb.CancelJobsRequest, context: Context) -> pb.CancelJobsResponse:
        wanted = selected_messages.selected_request(request)
        outcome = await self._operations.cancel_jobs(convert.caller(), wanted)
        return pb.CancelJobsResponse(count=outcome.count, next_page_token=outcome.next_token)

    async def RetryJob(self, request: pb.RetryJobRequest, context: Context) -> pb.RetryJobResponse:
        caller = convert.caller()
        command = selected_messages.retry_command(request, traceparent=traceparent(context))
        creation = await self._operations.retry_job(caller, command)
        job = messages.job_message(creation.job, inside=caller.sees_all)
        return pb.RetryJobResponse(job=job, replayed=creation.replayed)

    async def RetryJobs(self, request: pb.RetryJobsRequest, context: Context) -> pb.RetryJobsResponse:
        wanted = selected_messages.selected_request(request)
        trace = convert.trace_context(traceparent(context))
        outcome = await self._operations.retry_jobs(convert.caller(), wanted, traceparent=trace)
        return pb.RetryJobsResponse(count=outcome.count, next_page_token=outcome.next_token)

    async def WatchJob(
        self, request: pb.WatchJobRequest, context: Context
    ) -> AsyncIterator[pb.WatchJobResponse]:
        caller = convert.caller()
        async with aclosing(self._operations.watch_job(caller, convert.watch_command(request))) as updates:
            async for each in updates:
                yield watch_message(each, inside=caller.sees_all)

    async def WatchJobs(
        self, request: pb.WatchJobsRequest, context: Context
    ) -> AsyncIterator[pb.WatchJobsResponse]:
        caller = convert.caller()
        with Fields() as fields:
            job_filter = convert.job_filter(fields, request.filter)
        async with aclosing(self._operations.watch_jobs(caller, job_filter)) as updates:
            async for each in updates:
                yield live_message(each, inside=caller.sees_all)

    async def ListEvents(self, request: pb.ListEventsRequest, context: Context) -> pb.ListEventsResponse:
        with Fields() as fields:
            wanted, size = event_types(fields, request.event_types), fields.page_size(request)
        page = await self._operations.list_events(request.cursor, size=size, event_types=wanted)
        return feed_page(page)

    async def WatchEvents(
        self, request: pb.WatchEventsRequest, context: Context
    ) -> AsyncIterator[pb.WatchEventsResponse]:
        with Fields() as fields:
            wanted = event_types(fields, request.event_types)
        async with aclosing(self._operations.watch_events(request.cursor, event_types=wanted)) as updates:
            async for each in updates:
                yield watched_feed(each)
