"""Why a job is not running, rendered."""

from __future__ import annotations

from job_api.operations.wait_reasons import WaitReason
from job_api.rpc.messages import timestamp
from job_api.rpc.operator_messages import pause_message
from shared.gen.baton.v1 import operation_pb2


def reason_message(reason: WaitReason) -> operation_pb2.WaitReason:
    return operation_pb2.WaitReason(
        cause=operation_pb2.WaitCause.Value(f"WAIT_CAUSE_{reason.cause.name}"),
        sentence=reason.sentence,
        until_time=timestamp(reason.until_time),
        pause=None if reason.pause is None else pause_message(reason.pause),
        holding_job_ids=[str(each) for each in reason.holding_job_ids],
        count=reason.count,
        more=reason.more,
    )
