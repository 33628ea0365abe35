"""How the end of an attempt is told to the service."""

from __future__ import annotations

from job_worker.executor.held_lease import HeldLease, StopReason
from shared.domain.retries import TIMEOUT
from shared.gen.baton.internal.v1.handler_pipe_pb2 import WorkEnd
from shared.gen.baton.v1.execution_service_pb2 import (
    GIVE_BACK_REASON_DRAINING,
    GIVE_BACK_REASON_NEIGHBOUR_KILLED,
    GIVE_BACK_REASON_NOT_STARTED,
    GIVE_BACK_REASON_PROCESS_DIED,
    Failure,
    GiveBack,
    GiveBackReason,
    Report,
    Stopped,
)

_OUT_OF_TIME = "the attempt ran out of time"


def of_end(held: HeldLease, end: WorkEnd) -> Report:
    """Tell how a handler ended by itself. What it was told to stop for counts before what it says."""
    if held.stop is StopReason.TIMEOUT or (held.stop is not None and not end.HasField("success")):
        return of_stop(held, killed=False)
    if end.HasField("success"):
        return Report(lease=held.ref, success=end.success)
    return Report(lease=held.ref, failure=end.failure)


def of_death(held: HeldLease, *, killed: bool, alone: bool) -> Report:
    """Tell that the process died with the attempt inside.

    Args:
        killed: The keeper killed it.
        alone: Nobody else was inside.
    """
    if held.stop is not None:
        # One that had grace left has not ignored anything: the kill was for another.
        return of_stop(held, killed=killed and held.grace_is_over)
    if killed:
        return given_back(held, GIVE_BACK_REASON_NEIGHBOUR_KILLED)
    return given_back(held, GIVE_BACK_REASON_PROCESS_DIED, alone=alone)


def not_begun(held: HeldLease) -> Report:
    """Tell that the attempt was told to stop before it began, which is never its handler's fault."""
    if held.stop is StopReason.TIMEOUT:
        return given_back(held, GIVE_BACK_REASON_NOT_STARTED)
    return of_stop(held, killed=False)


def of_stop(held: HeldLease, *, killed: bool) -> Report:
    """Tell that the attempt stopped because it was told to."""
    match held.stop:
        case StopReason.TIMEOUT:
            return Report(lease=held.ref, failure=Failure(code=TIMEOUT, message=_OUT_OF_TIME))
        case StopReason.CANCEL:
            return Report(lease=held.ref, stopped=Stopped(killed=killed))
        case _:
            return given_back(held, GIVE_BACK_REASON_DRAINING)


def given_back(held: HeldLease, reason: GiveBackReason.ValueType, *, alone: bool = False) -> Report:
    return Report(lease=held.ref, give_back=GiveBack(reason=reason, alone=alone))
