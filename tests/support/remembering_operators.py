"""What a JobControl that answers from memory tells operators."""

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc, operation_pb2
from tests.support.scripted_control import JOB

INCARNATION = "0197f3f0-0000-7000-8000-000000000003"
THEN = Timestamp(seconds=1_900_000_000)


class RememberingOperators(job_control_pb2_grpc.JobControlServicer):
    """One dead message, told twice, of which there are `dead`; one executor; and one queue."""

    def __init__(self) -> None:
        self.dead = 3
        self.asked: list[Any] = []

    def ListOutboxMessages(self, request: Any, context: Any) -> pb.ListOutboxMessagesResponse:
        self._refuse(context)
        self.asked.append(request)
        return pb.ListOutboxMessagesResponse(messages=[a_dead_message()] * 2, next_page_token="more")

    def ResendOutboxMessages(self, request: Any, context: Any) -> pb.ResendOutboxMessagesResponse:
        self._refuse(context)
        self.asked.append(request)
        count = min(self.dead, len(request.outbox_ids) or 2)
        self.dead -= count
        return pb.ResendOutboxMessagesResponse(count=count)

    def ExplainJob(self, request: Any, context: Any) -> pb.ExplainJobResponse:
        self._refuse(context)
        self.asked.append(request)
        return pb.ExplainJobResponse(reasons=some_reasons())

    def ListExecutors(self, request: Any, context: Any) -> pb.ListExecutorsResponse:
        self._refuse(context)
        return pb.ListExecutorsResponse(executors=[an_executor()])

    def ListAuditRecords(self, request: Any, context: Any) -> pb.ListAuditRecordsResponse:
        self._refuse(context)
        self.asked.append(request)
        return pb.ListAuditRecordsResponse(
            records=[a_record(), a_record(name="drill")], next_page_token="more"
        )

    def ListQueues(self, request: Any, context: Any) -> pb.ListQueuesResponse:
        self._refuse(context)
        return pb.ListQueuesResponse(queues=[a_queue()])

    def Pause(self, request: Any, context: Any) -> pb.PauseResponse:
        self._refuse(context)
        self.asked.append(request)
        pause = operation_pb2.Pause(subject="root", pause_time=THEN, note=request.note)
        return pb.PauseResponse(pause=pause)

    def Resume(self, request: Any, context: Any) -> pb.ResumeResponse:
        self._refuse(context)
        self.asked.append(request)
        seconds = 0 if request.queue == "import" else 3725
        return pb.ResumeResponse(paused_time=Duration(seconds=seconds))

    def _refuse(self, context: Any) -> None:
        """End the call if it is to be refused; the other half says how."""
        raise NotImplementedError


def a_dead_message() -> operation_pb2.OutboxMessage:
    return operation_pb2.OutboxMessage(
        outbox_id=7,
        event_type="job.dispatch",
        aggregate_type="job",
        aggregate_id=JOB,
        state=operation_pb2.OUTBOX_STATE_DEAD,
        tries=3,
        payload=b'{"queue": "drill"}',
        last_error_code="WRONGTYPE",
        last_error_message="WRONGTYPE a key holds something else",
        available_time=THEN,
    )


def a_record(name: str = "") -> operation_pb2.AuditRecord:
    """One about a job in another's name, or about a queue of this name."""
    return operation_pb2.AuditRecord(
        subject="root",
        owner="root" if name else "ada",
        action="queue.pause" if name else "job.cancel",
        aggregate_id="" if name else JOB,
        record_time=THEN,
        outcome="OK",
        name=name,
    )


def some_reasons() -> list[operation_pb2.WaitReason]:
    pause = operation_pb2.Pause(subject="root", pause_time=THEN, note="the disk is full")
    return [
        operation_pb2.WaitReason(
            cause=operation_pb2.WAIT_CAUSE_QUEUE_PAUSED, sentence="Its queue drill was paused.", pause=pause
        ),
        operation_pb2.WaitReason(
            cause=operation_pb2.WAIT_CAUSE_LIMIT,
            sentence="Its job type has a limit.",
            holding_job_ids=[JOB],
            count=1,
        ),
        operation_pb2.WaitReason(
            cause=operation_pb2.WAIT_CAUSE_BACKOFF, sentence="It backs off.", until_time=THEN
        ),
    ]


def an_executor() -> operation_pb2.Executor:
    return operation_pb2.Executor(
        executor_name="executor-1",
        incarnation_id=INCARNATION,
        runtime="baton/0.1.0 python/3.11",
        job_types=["document_import", "synthetic"],
        leases=4,
        last_seen_time=THEN,
    )


def a_queue() -> operation_pb2.QueueStatus:
    return operation_pb2.QueueStatus(
        queue="drill",
        waiting=1200,
        more_waiting=True,
        running=64,
        oldest_due_age=Duration(seconds=3725),
        finished_last_minute=900,
        executors=2,
        credits=0,
        job_type_pauses={
            "synthetic": operation_pb2.Pause(subject="root", pause_time=THEN, note="a bad model")
        },
    )
