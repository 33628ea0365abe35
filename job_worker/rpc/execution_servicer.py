"""ExecutionService on the wire: parse, ask one operation, render."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeAlias

import grpc

from job_worker.operations.get_snapshot import GetSnapshot
from job_worker.operations.reports import Report, ReportAnswer, ReportOutcome
from job_worker.rpc import convert_requests, convert_responses
from job_worker.rpc.limits import ExecutionLimits
from job_worker.sessions.reception import Reception
from job_worker.sessions.report_batch import ReportBatch
from job_worker.sessions.session import Session, SessionEnd
from shared.domain.errors import LeaseLost
from shared.domain.scopes import JOBS_EXECUTE
from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import execution_service_pb2_grpc as pb_grpc

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["ExecutionService"].full_name

SCOPES: Mapping[str, str] = MappingProxyType(
    {
        "OpenSession": JOBS_EXECUTE,
        "GetSnapshot": JOBS_EXECUTE,
        "ReportResult": JOBS_EXECUTE,
        "ReportFailure": JOBS_EXECUTE,
    }
)


class ExecutionServicer(pb_grpc.ExecutionServiceServicer):
    """A session is a reader and a writer that end together; all else is one call, one answer."""

    def __init__(
        self, reception: Reception, reports: ReportBatch, get_snapshot: GetSnapshot, limits: ExecutionLimits
    ) -> None:
        self._reception = reception
        self._reports = reports
        self._get_snapshot = get_snapshot
        self._limits = limits

    async def OpenSession(  # type: ignore[override]  # the stubs know no coroutine that writes by itself
        self, request_iterator: AsyncIterator[pb.OpenSessionRequest], context: Context
    ) -> None:
        first = await anext(request_iterator, pb.OpenSessionRequest())
        hello = convert_requests.hello(first)
        frame = convert_requests.executor_frame(first, self._limits)
        session = await self._reception.open(hello)
        try:
            await context.write(convert_responses.welcome(session.opened, self._limits))
            self._reception.take(session, frame)
            await self._converse(session, request_iterator, context)
        finally:
            self._reception.close(session)
        if session.end_reason is SessionEnd.REPLACED:
            await context.abort(grpc.StatusCode.ABORTED, "a newer session of this incarnation stands")

    async def GetSnapshot(
        self, request: pb.GetSnapshotRequest, context: Context
    ) -> AsyncIterator[pb.GetSnapshotResponse]:
        async for part in self._get_snapshot(convert_requests.lease_ref("lease", request.lease)):
            yield convert_responses.snapshot_part(part)

    async def ReportResult(
        self, request: pb.ReportResultRequest, context: Context
    ) -> pb.ReportResultResponse:
        answer = await self._answer(convert_requests.result_report(request))
        return pb.ReportResultResponse(answer=convert_responses.report_answer(answer))

    async def ReportFailure(
        self, request: pb.ReportFailureRequest, context: Context
    ) -> pb.ReportFailureResponse:
        answer = await self._answer(convert_requests.failure_report(request))
        return pb.ReportFailureResponse(answer=convert_responses.report_answer(answer))

    async def _answer(self, report: Report) -> ReportAnswer:
        answer = await self._reports.answer_of(report)
        if answer.outcome is ReportOutcome.LEASE_LOST:
            raise LeaseLost(report.lease.job_id)
        return answer

    async def _converse(
        self, session: Session, requests: AsyncIterator[pb.OpenSessionRequest], context: Context
    ) -> None:
        """Read and write until either ends; the other then ends too, and an error of either is raised."""
        reader = asyncio.create_task(self._read(session, requests))
        try:
            async for frame in session.outgoing.frames():
                await context.write(
                    convert_responses.service_frame(frame, output_bytes_max=self._limits.output_bytes_max)
                )
        finally:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader

    async def _read(self, session: Session, requests: AsyncIterator[pb.OpenSessionRequest]) -> None:
        try:
            async for request in requests:
                self._reception.take(session, convert_requests.later_frame(request, self._limits))
                await self._reception.room(session)
            if session.goodbye:  # its stream stands until the last report is answered
                await session.all_answered()
        finally:
            session.outgoing.close()
