"""The part of JobControl that is for operators."""

from __future__ import annotations

from dataclasses import dataclass

from job_api.operations.explain_job import ExplainJob
from job_api.operations.list_audit_records import ListAuditRecords
from job_api.operations.list_executors import ListExecutors
from job_api.operations.list_outbox_messages import ListOutboxMessages
from job_api.operations.list_queues import ListQueues
from job_api.operations.pause import PauseWork
from job_api.operations.resend_outbox_messages import ResendOutboxMessages
from job_api.operations.resume import ResumeWork
from job_api.rpc import audit_messages, convert, operator_messages, pages
from job_api.rpc.calls import Context
from job_api.rpc.explanation_messages import reason_message
from job_api.rpc.fields import Fields
from job_api.rpc.messages import duration
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOperations:
    """What operators can ask."""

    explain_job: ExplainJob
    list_queues: ListQueues
    pause: PauseWork
    resume: ResumeWork
    list_executors: ListExecutors
    list_outbox_messages: ListOutboxMessages
    resend_outbox_messages: ResendOutboxMessages
    list_audit_records: ListAuditRecords


class OperatorServicer(job_control_pb2_grpc.JobControlServicer):
    """Queues, executors, messages that could not be delivered, why a job is not running, who did what."""

    def __init__(self, operations: OperatorOperations) -> None:
        self._for_operators = operations

    async def ExplainJob(self, request: pb.ExplainJobRequest, context: Context) -> pb.ExplainJobResponse:
        reasons = await self._for_operators.explain_job(convert.caller(), convert.job_id(request.job_id))
        return pb.ExplainJobResponse(reasons=[reason_message(each) for each in reasons])

    async def ListQueues(self, request: pb.ListQueuesRequest, context: Context) -> pb.ListQueuesResponse:
        with Fields() as fields:
            asked = fields.page(request)
        page = await self._for_operators.list_queues(asked)
        queues, token = pages.fitted(page, operator_messages.queue_message)
        return pb.ListQueuesResponse(queues=queues, next_page_token=token)

    async def Pause(self, request: pb.PauseRequest, context: Context) -> pb.PauseResponse:
        with Fields() as fields:
            pausable = operator_messages.pausable(fields, request)
            note = fields.text("note", request.note, most=operator_messages.NOTE_CHARACTERS_MAX)
        pause = await self._for_operators.pause(convert.caller(), pausable, note)
        return pb.PauseResponse(pause=operator_messages.pause_message(pause))

    async def Resume(self, request: pb.ResumeRequest, context: Context) -> pb.ResumeResponse:
        with Fields() as fields:
            pausable = operator_messages.pausable(fields, request)
        span = await self._for_operators.resume(convert.caller(), pausable)
        return pb.ResumeResponse(paused_time=duration(span))

    async def ListExecutors(
        self, request: pb.ListExecutorsRequest, context: Context
    ) -> pb.ListExecutorsResponse:
        with Fields() as fields:
            asked = fields.page(request)
        page = await self._for_operators.list_executors(asked)
        executors, token = pages.fitted(page, operator_messages.executor_message)
        return pb.ListExecutorsResponse(executors=executors, next_page_token=token)

    async def ListOutboxMessages(
        self, request: pb.ListOutboxMessagesRequest, context: Context
    ) -> pb.ListOutboxMessagesResponse:
        with Fields() as fields:
            state, asked = operator_messages.outbox_state(fields, request.state), fields.page(request)
        page = await self._for_operators.list_outbox_messages(state, asked)
        messages, token = pages.fitted(page, operator_messages.outbox_message)
        return pb.ListOutboxMessagesResponse(messages=messages, next_page_token=token)

    async def ResendOutboxMessages(
        self, request: pb.ResendOutboxMessagesRequest, context: Context
    ) -> pb.ResendOutboxMessagesResponse:
        with Fields() as fields:
            outbox_ids = operator_messages.outbox_ids(fields, request.outbox_ids)
        count = await self._for_operators.resend_outbox_messages(convert.caller(), outbox_ids)
        return pb.ResendOutboxMessagesResponse(count=count)

    async def ListAuditRecords(
        self, request: pb.ListAuditRecordsRequest, context: Context
    ) -> pb.ListAuditRecordsResponse:
        with Fields() as fields:
            wanted, asked = audit_messages.audit_filter(fields, request), fields.page(request)
        page = await self._for_operators.list_audit_records(wanted, asked)
        records, token = pages.fitted(page, audit_messages.audit_record)
        return pb.ListAuditRecordsResponse(records=records, next_page_token=token)
