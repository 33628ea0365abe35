"""What a cancel does to a job that has been leased."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2, job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import names_precondition, refused
from verification.conformance.services.session import Session, session
from verification.conformance.services.target import NotJudged, Target
from verification.peers import executor as peers
from verification.peers.executor import ref
from verification.unmet import require

_CANCELLED = job_pb2.JOB_STATE_CANCELLED
_RUNNING = job_pb2.JOB_STATE_RUNNING
_ENDS = (
    ("success", peers.success),
    ("failure", peers.failure),
    ("give_back", lambda lease: peers.give_back(lease, pb.GIVE_BACK_REASON_NOT_STARTED)),
)


async def a_running_job_is_asked_to_stop(target: Target) -> None:
    """A cancel of a leased job is pushed, seen and confirmed, each step shows; asking again is OK."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await _stoppable_lease(it, job.job_id)
        await it.beat(1, lease)
        for _ in range(2):
            asked = await target.control.cancel(job.job_id)
            require(asked.state in {_RUNNING, _CANCELLED}, f"its state is {asked.state}")
            require(asked.cancellation.HasField("request_time"), "it does not show the request")
        await _pushed(it, lease)
        await it.executor.send(cancels_seen=[ref(lease)])
        (answer,) = await it.report(peers.stopped(lease))
        require(answer.outcome == pb.REPORT_OUTCOME_ACCEPTED, f"the stop gets {answer.outcome}")
    shown = await target.control.get(job.job_id)
    require(shown.state == _CANCELLED, f"its state is {shown.state}")
    times = shown.cancellation
    require(times.HasField("seen_time") and times.HasField("stop_time"), f"it shows {times}")
    require(not times.forced, "it is marked as forced")
    (attempt,) = await target.control.attempts(job.job_id)
    require(attempt.outcome == job_pb2.ATTEMPT_OUTCOME_CANCELLED, f"its attempt is {attempt.outcome}")
    events = await target.events_so_far(job.job_id)
    told = [each.kind for each in events if each.kind != job_pb2.JOB_EVENT_KIND_ATTEMPT_ENDED]
    wanted = [
        job_pb2.JOB_EVENT_KIND_CREATED,
        job_pb2.JOB_EVENT_KIND_STARTED,
        job_pb2.JOB_EVENT_KIND_CANCEL_REQUESTED,
        job_pb2.JOB_EVENT_KIND_CANCEL_SEEN,
        job_pb2.JOB_EVENT_KIND_CANCELLED,
    ]
    require(told == wanted, f"its events are {told}")
    require([each.number for each in events] == list(range(1, len(events) + 1)), "their numbers have gaps")


async def once_cancelled_never_succeeded(target: Target) -> None:
    """After a cancel has returned, any other end of the attempt makes the job CANCELLED, and says so."""
    for name, end in _ENDS:
        job = await target.due_job()
        async with session(target) as it:
            lease = await _stoppable_lease(it, job.job_id)
            await target.control.cancel(job.job_id)
            for _ in range(2):
                (answer,) = await it.report(end(lease))
                wanted = pb.REPORT_OUTCOME_CANCELLED_INSTEAD
                require(answer.outcome == wanted, f"a {name} after the cancel gets {answer.outcome}")
        shown = await target.control.get(job.job_id)
        require(shown.state == _CANCELLED, f"after a {name} its state is {shown.state}")
        request = job_control_pb2.GetJobOutputRequest(job_id=job.job_id)
        require(not (await target.control.call("GetJobOutput", request)).output, "its output was stored")


async def a_cancel_is_pushed_until_it_was_seen(target: Target) -> None:
    """A cancel that was not acknowledged is pushed again after a reconnect, and not once it was."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await _stoppable_lease(it, job.job_id)
        await target.control.cancel(job.job_id)
        await _pushed(it, lease)
        again = {"incarnation_id": it.executor.incarnation_id, "held": [lease]}
        async with session(target, **again) as second:
            await _pushed(second, lease)
            await second.executor.send(cancels_seen=[ref(lease)])
            await second.beat(1, lease)
            (answer,) = await second.report(peers.stopped(lease, killed=True))
            require(answer.outcome == pb.REPORT_OUTCOME_ACCEPTED, f"the stop gets {answer.outcome}")


async def between_attempts_a_job_is_cancelled_at_once(target: Target) -> None:
    """A job that waits for its next attempt is CANCELLED when the call returns, and no attempt follows."""
    job = await target.due_job()
    async with session(target) as it:
        await it.fail(await it.lease_of(job.job_id), retry_after=Duration(seconds=60))
        cancelled = await target.control.cancel(job.job_id)
        attempts = await target.control.attempts(job.job_id)
        if len(attempts) > 1:
            raise NotJudged("its next attempt came at once")
        require(cancelled.state == _CANCELLED, f"its state is {cancelled.state}")
        require(not cancelled.HasField("next_attempt_time"), "it still has a time for its next attempt")
        require(cancelled.cancellation.HasField("stop_time"), "the cancellation has no stop time")


async def an_ended_job_is_not_cancellable(target: Target) -> None:
    """A cancel of a job that SUCCEEDED or FAILED is JOB_NOT_CANCELLABLE, and changes nothing."""
    for code in ("", "INPUT_BROKEN"):
        job = await target.due_job()
        async with session(target) as it:
            lease = await it.lease_of(job.job_id)
            await (it.fail(lease, code) if code else it.succeed(lease))
        before = await target.control.get(job.job_id)
        call = target.control.call("CancelJob", job_control_pb2.CancelJobRequest(job_id=job.job_id))
        error = await refused(call, "JOB_NOT_CANCELLABLE")
        require(names_precondition(error), "PreconditionFailure does not name the reason")
        require(await target.control.get(job.job_id) == before, "the cancel has changed the job")


async def _stoppable_lease(it: Session, job_id: str) -> pb.Lease:
    lease = await it.lease_of(job_id)
    if not lease.cancellable:
        await it.succeed(lease)
        raise NotJudged("jobs of this type can't be cancelled here while they are leased")
    return lease


async def _pushed(it: Session, lease: pb.Lease) -> None:
    await it.executor.until(lambda: ref(lease) in it.executor.cancels)


THEME = Theme(
    "stopping",
    (
        a_running_job_is_asked_to_stop,
        once_cancelled_never_succeeded,
        a_cancel_is_pushed_until_it_was_seen,
        between_attempts_a_job_is_cancelled_at_once,
        an_ended_job_is_not_cancellable,
    ),
    executing=True,
)
