"""What operators ask, read and rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from job_api.operations.list_executors import Executor
from job_api.operations.list_outbox_messages import OutboxMessage, OutboxState
from job_api.operations.list_queues import QueueStatus
from job_api.rpc.fields import NAME_CHARACTERS_MAX, Fields
from job_api.rpc.messages import duration, timestamp
from shared.domain.identity import JobType, QueueName
from shared.domain.pauses import Pausable, Pause, PauseKind
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2

OUTBOX_IDS_MAX = 1_000
NOTE_CHARACTERS_MAX = 200

_OUTBOX_STATES: Mapping[int, OutboxState] = {
    operation_pb2.OUTBOX_STATE_UNSPECIFIED: OutboxState.DEAD,
    operation_pb2.OUTBOX_STATE_PENDING: OutboxState.PENDING,
    operation_pb2.OUTBOX_STATE_DELIVERED: OutboxState.DELIVERED,
    operation_pb2.OUTBOX_STATE_DEAD: OutboxState.DEAD,
}


def outbox_state(fields: Fields, state: int) -> OutboxState:
    """Read a state; unspecified means dead, which is what operators look for."""
    if state not in _OUTBOX_STATES:
        fields.refuse("state", "is not a state of an outbox message")
    return _OUTBOX_STATES.get(state, OutboxState.DEAD)


def outbox_ids(fields: Fields, ids: Sequence[int]) -> list[int]:
    if len(ids) > OUTBOX_IDS_MAX:
        fields.refuse("outbox_ids", f"has more than {OUTBOX_IDS_MAX} items")
        return []
    for index, each in enumerate(ids):
        if each < 1:
            fields.refuse(f"outbox_ids[{index}]", "must be at least 1")
    return list(ids)


def pausable(fields: Fields, request: pb.PauseRequest | pb.ResumeRequest) -> Pausable:
    """Read what is named; the contract lets a request name one thing only."""
    if request.WhichOneof("subject") == "job_type":
        fields.text("job_type", request.job_type, least=1, most=NAME_CHARACTERS_MAX)
        return Pausable(PauseKind.JOB_TYPE, JobType(request.job_type))
    if not request.HasField("queue"):
        fields.refuse("subject", "name a queue or a job type")
        return Pausable(PauseKind.QUEUE, QueueName(""))
    fields.text("queue", request.queue, least=1, most=NAME_CHARACTERS_MAX)
    return Pausable(PauseKind.QUEUE, QueueName(request.queue))


def pause_message(pause: Pause) -> operation_pb2.Pause:
    return operation_pb2.Pause(subject=pause.subject, pause_time=timestamp(pause.pause_time), note=pause.note)


def outbox_message(message: OutboxMessage) -> operation_pb2.OutboxMessage:
    return operation_pb2.OutboxMessage(
        outbox_id=message.outbox_id,
        event_type=message.event_type,
        aggregate_type=message.aggregate_type,
        aggregate_id=str(message.aggregate_id),
        state=operation_pb2.OutboxState.Value(f"OUTBOX_STATE_{message.state.name}"),
        tries=message.tries,
        payload=message.payload.encode(),
        last_error_code=message.last_error_code,
        last_error_message=message.last_error_message,
        available_time=timestamp(message.available_time),
        delivered_time=timestamp(message.delivered_time),
    )


def executor_message(executor: Executor) -> operation_pb2.Executor:
    return operation_pb2.Executor(
        executor_name=executor.executor_name,
        incarnation_id=str(executor.incarnation_id),
        runtime=executor.runtime,
        job_types=executor.job_types,
        leases=executor.leases,
        last_seen_time=timestamp(executor.last_seen_time),
    )


def queue_message(status: QueueStatus) -> operation_pb2.QueueStatus:
    age = status.oldest_due_age
    return operation_pb2.QueueStatus(
        queue=status.queue,
        group=status.group,
        waiting=status.waiting,
        more_waiting=status.more_waiting,
        running=status.running,
        oldest_due_age=None if age is None else duration(age),
        finished_last_minute=status.finished_last_minute,
        executors=status.executors,
        credits=status.credits,
        pause=None if status.pause is None else pause_message(status.pause),
        job_type_pauses={name: pause_message(each) for name, each in status.job_type_pauses.items()},
    )
