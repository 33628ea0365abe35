"""What operators can ask of JobControl; see `asks`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from job_api.client import convert
from job_api.client.asks import PAGE_SIZE_MAX, Ask, Listing, listing
from job_api.client.operator_views import (
    ExecutorView,
    OutboxMessageView,
    PauseView,
    QueueView,
    WaitReasonView,
)
from shared.domain.events import OutboxState
from shared.domain.identity import IncarnationId, JobId, JobType, QueueName
from shared.domain.jobs import WaitCause
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2


def list_outbox_messages(state: OutboxState, *, page_size: int) -> Listing[OutboxMessageView]:
    number = operation_pb2.OutboxState.Value(f"OUTBOX_STATE_{OutboxState(state).name}")
    request = pb.ListOutboxMessagesRequest(state=number, page_size=page_size)
    return listing("ListOutboxMessages", request, "messages", outbox_message_view)


def resend_outbox_messages(outbox_ids: Collection[int] | None) -> Ask[int]:
    if outbox_ids is not None and not outbox_ids:
        raise ValueError("name at least one message; None is for all of them")
    request = pb.ResendOutboxMessagesRequest(outbox_ids=outbox_ids)
    return Ask("ResendOutboxMessages", request, lambda told: int(told.count))


def list_executors() -> Listing[ExecutorView]:
    request = pb.ListExecutorsRequest(page_size=PAGE_SIZE_MAX)
    return listing("ListExecutors", request, "executors", executor_view)


def pause(*, queue: str | None, job_type: str | None, note: str) -> Ask[PauseView]:
    request = pb.PauseRequest(note=note, **_named(queue, job_type))
    return Ask("Pause", request, lambda told: _pause(told.pause))


def resume(*, queue: str | None, job_type: str | None) -> Ask[timedelta]:
    request = pb.ResumeRequest(**_named(queue, job_type))
    return Ask("Resume", request, _paused_time)


def list_queues() -> Listing[QueueView]:
    return listing("ListQueues", pb.ListQueuesRequest(page_size=PAGE_SIZE_MAX), "queues", queue_view)


def explain(job_id: JobId) -> Ask[Sequence[WaitReasonView]]:
    return Ask(
        "ExplainJob",
        pb.ExplainJobRequest(job_id=str(job_id)),
        lambda told: [*map(wait_reason_view, told.reasons)],
    )


def outbox_message_view(message: operation_pb2.OutboxMessage) -> OutboxMessageView:
    state = operation_pb2.OutboxState.Name(message.state).removeprefix("OUTBOX_STATE_")
    return OutboxMessageView(
        outbox_id=message.outbox_id,
        event_type=message.event_type,
        aggregate_type=message.aggregate_type,
        aggregate_id=UUID(message.aggregate_id),
        state=OutboxState[state],
        tries=message.tries,
        payload=convert.json_value(message.payload),
        last_error_code=message.last_error_code,
        last_error_message=message.last_error_message,
        available_time=convert.time(message.available_time),
        delivered_time=convert.optional(message, "delivered_time", convert.time),
    )


def executor_view(executor: operation_pb2.Executor) -> ExecutorView:
    return ExecutorView(
        executor_name=executor.executor_name,
        incarnation_id=IncarnationId(UUID(executor.incarnation_id)),
        runtime=executor.runtime,
        job_types=[JobType(each) for each in executor.job_types],
        leases=executor.leases,
        credits=convert.optional(executor, "credits", int),
        last_seen_time=convert.time(executor.last_seen_time),
        draining=convert.optional(executor, "draining", bool),
    )


def queue_view(queue: operation_pb2.QueueStatus) -> QueueView:
    return QueueView(
        queue=QueueName(queue.queue),
        group=queue.group,
        waiting=queue.waiting,
        more_waiting=queue.more_waiting,
        running=queue.running,
        oldest_due_age=convert.optional(queue, "oldest_due_age", lambda span: span.ToTimedelta()),
        started_last_minute=convert.optional(queue, "started_last_minute", int),
        finished_last_minute=queue.finished_last_minute,
        executors=queue.executors,
        credits=convert.optional(queue, "credits", int),
        pause=convert.optional(queue, "pause", _pause),
        job_type_pauses={JobType(name): _pause(each) for name, each in queue.job_type_pauses.items()},
    )


def wait_reason_view(reason: operation_pb2.WaitReason) -> WaitReasonView:
    cause = operation_pb2.WaitCause.Name(reason.cause).removeprefix("WAIT_CAUSE_")
    return WaitReasonView(
        cause=WaitCause[cause],
        sentence=reason.sentence,
        until_time=convert.optional(reason, "until_time", convert.time),
        pause=convert.optional(reason, "pause", _pause),
        holding_job_ids=[JobId(UUID(each)) for each in reason.holding_job_ids],
        count=reason.count,
        more=reason.more,
    )


def _paused_time(told: pb.ResumeResponse) -> timedelta:
    span: timedelta = told.paused_time.ToTimedelta()
    return span


def _named(queue: str | None, job_type: str | None) -> dict[str, str]:
    if (queue is None) is (job_type is None):
        raise ValueError("name a queue or a job type")
    return {"job_type": job_type} if queue is None and job_type is not None else {"queue": queue or ""}


def _pause(pause: operation_pb2.Pause) -> PauseView:
    return PauseView(pause.subject, convert.time(pause.pause_time), pause.note)
