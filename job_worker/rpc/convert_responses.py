"""From the engine's values to what executors are sent."""

from __future__ import annotations

from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from job_worker.operations.claim_leases import GrantedLease
from job_worker.operations.get_snapshot import DocumentChunk, InputChunk
from job_worker.operations.open_session import OpenedSession
from job_worker.operations.reports import ReportAnswer, ReportOutcome
from job_worker.rpc.limits import ExecutionLimits
from job_worker.sessions.frames import ServiceFrame
from shared.catalog.definition import CredentialMode
from shared.domain.jobs import JobError
from shared.domain.leases import HEARTBEATS_PER_LEASE, Document, LeaseRef
from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_pb2

_OUTCOMES = {
    ReportOutcome.ACCEPTED: pb.REPORT_OUTCOME_ACCEPTED,
    ReportOutcome.CANCELLED_INSTEAD: pb.REPORT_OUTCOME_CANCELLED_INSTEAD,
    ReportOutcome.RETRY_SCHEDULED: pb.REPORT_OUTCOME_RETRY_SCHEDULED,
    ReportOutcome.LEASE_LOST: pb.REPORT_OUTCOME_LEASE_LOST,
    ReportOutcome.REFUSED: pb.REPORT_OUTCOME_REFUSED,
}
_CREDENTIAL_MODES = {
    CredentialMode.PLATFORM_KEY: job_pb2.CREDENTIAL_MODE_PLATFORM_KEY,
    CredentialMode.USER_KEY: job_pb2.CREDENTIAL_MODE_USER_KEY,
}


def welcome(opened: OpenedSession, limits: ExecutionLimits) -> pb.OpenSessionResponse:
    return pb.OpenSessionResponse(
        welcome=pb.Welcome(
            session_id=str(opened.session_id),
            kept=[lease_ref(each) for each in opened.kept],
            lost=[lease_ref(each) for each in opened.lost],
            frame_bytes_max=limits.frame_bytes_max,
            output_bytes_max=limits.output_bytes_max,
            piece_bytes_max=limits.piece_bytes_max,
            progress_message_characters_max=limits.progress_message_characters_max,
        )
    )


def service_frame(frame: ServiceFrame, *, output_bytes_max: int) -> pb.OpenSessionResponse:
    return pb.OpenSessionResponse(
        leases=[_lease(each, output_bytes_max) for each in frame.leases],
        heartbeats_recorded=frame.heartbeats_recorded,
        lost=[lease_ref(each) for each in frame.lost],
        cancels=[lease_ref(each) for each in frame.cancels],
        answers=[report_answer(each) for each in frame.answers],
        pieces_recorded=[
            pb.PiecesRecorded(lease=lease_ref(lease), number=number)
            for lease, number in frame.pieces_recorded.items()
        ],
        drain=None if frame.drain is None else pb.Drain(time_left=_duration(frame.drain)),
    )


def report_answer(answer: ReportAnswer) -> pb.ReportAnswer:
    return pb.ReportAnswer(
        lease=lease_ref(answer.lease),
        outcome=_OUTCOMES[answer.outcome],
        reason=answer.reason,
        message=answer.message,
    )


def snapshot_part(part: InputChunk | DocumentChunk) -> pb.GetSnapshotResponse:
    match part:
        case InputChunk(content=content):
            return pb.GetSnapshotResponse(input_chunk=content)
        case DocumentChunk(content=content):
            return pb.GetSnapshotResponse(document_chunk=content)


def lease_ref(lease: LeaseRef) -> pb.LeaseRef:
    return pb.LeaseRef(job_id=str(lease.job_id), token=lease.token)


def _lease(granted: GrantedLease, output_bytes_max: int) -> pb.Lease:
    lease, terms = granted.lease, granted.terms
    return pb.Lease(
        job_id=str(lease.ref.job_id),
        token=lease.ref.token,
        attempt=lease.attempt,
        job_type=lease.job_type,
        queue=lease.queue,
        priority=lease.priority,
        input_schema_version=lease.input_schema_version,
        output_schema_version=lease.output_schema_version,
        input=lease.input,
        input_bytes=lease.input_bytes,
        document=_document(lease.document),
        time_left=_duration(terms.timeout),
        grace=_duration(terms.grace),
        heartbeat_interval=_duration(terms.duration / HEARTBEATS_PER_LEASE),
        lease_duration=_duration(terms.duration),
        cancellable=granted.cancellable,
        traceparent=lease.traceparent,
        last_error=_error(lease.last_error),
        run_alone=lease.run_alone,
        credential_mode=_CREDENTIAL_MODES[CredentialMode(lease.credential_mode)],
        credential_id=lease.credential_id,
        prompt_version=lease.prompt_version,
        output_bytes_max=output_bytes_max,
    )


def _document(document: Document | None) -> pb.Document | None:
    if document is None:
        return None
    return pb.Document(
        document_bytes=document.document_bytes,
        sha256=document.sha256,
        media_type=document.media_type,
        file_name=document.file_name,
    )


def _error(error: JobError | None) -> job_pb2.JobError | None:
    # Executors are told what the owner may be told; what happened inside stays with the operators.
    return None if error is None else job_pb2.JobError(code=error.code, message=error.message)


def _duration(span: timedelta) -> Duration:
    message = Duration()
    message.FromTimedelta(span)
    return message
