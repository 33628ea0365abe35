"""From the outcomes of creations to messages."""

from __future__ import annotations

import grpc

from job_api.operations.job_creation import Creation, Outcome
from job_api.rpc.messages import job_message
from shared.domain.errors import BatonError, IdempotencyKeyReused, InvalidInput, PayloadTooLarge
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.rpc.status import code_of


def creation_message(creation: Creation, *, inside: bool) -> pb.CreateJobResponse:
    return pb.CreateJobResponse(job=job_message(creation.job, inside=inside), replayed=creation.replayed)


def outcome_message(outcome: Outcome, *, inside: bool) -> pb.CreateJobOutcome:
    if isinstance(outcome, Creation):
        return pb.CreateJobOutcome(created=creation_message(outcome, inside=inside))
    return pb.CreateJobOutcome(error=_error(outcome))


def _error(error: BatonError) -> pb.CreateJobError:
    code = code_of(error) or grpc.StatusCode.INTERNAL
    message = pb.CreateJobError(status_code=code.value[0], reason=error.reason, message=error.message)
    match error:
        case InvalidInput(violations=(first, *_)):
            message.field = first.field
        case PayloadTooLarge(field=field):
            message.field = field
        case IdempotencyKeyReused(job_id=job_id) if job_id is not None:
            message.job_id = str(job_id)
        case _:
            pass
    return message
