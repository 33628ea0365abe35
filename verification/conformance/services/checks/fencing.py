"""What a lease that is not a job's current one can do: nothing."""

from __future__ import annotations

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.refusals import refused
from verification.conformance.services.session import Session, session, unknown_lease
from verification.conformance.services.target import Target
from verification.peers import executor as peers
from verification.peers.executor import ref
from verification.unmet import require

_LOST = pb.REPORT_OUTCOME_LEASE_LOST
_ACCEPTED = pb.REPORT_OUTCOME_ACCEPTED


async def a_stale_lease_changes_nothing(target: Target) -> None:
    """Heartbeats, progress, pieces and reports under an attempt that has ended store nothing."""
    job = await target.due_job()
    async with session(target) as it:
        stale = await it.lease_of(job.job_id)
        await it.report(peers.give_back(stale, pb.GIVE_BACK_REASON_NOT_STARTED))
        current = await it.lease_of(job.job_id, attempt=2)
        await it.beat(1, current, progress=10, progress_message="mine")
        await it.executor.send(
            heartbeats=[peers.heartbeat(stale, progress=90, progress_message="stale")],
            heartbeat_number=2,
            pieces=peers.pieces(stale, "stale"),
        )
        await it.executor.until(lambda: it.executor.lost)
        require({each.token for each in it.executor.lost} == {stale.token}, f"lost is {it.executor.lost}")
        answer = await it.succeed(stale)
        require(answer.outcome in {_LOST, pb.REPORT_OUTCOME_REFUSED}, f"its result gets {answer.outcome}")
        shown = await target.control.get(job.job_id)
        said = (shown.state, shown.attempt, shown.progress, shown.progress_message)
        require(said == (job_pb2.JOB_STATE_RUNNING, 2, 10, "mine"), f"the job shows {said}")
        require((await it.succeed(current)).outcome == _ACCEPTED, "the current lease is refused")
    updates = await target.control.watch_to_end(job.job_id)
    require(not any(each.HasField("piece") for each in updates), "a stale piece was stored")


async def an_old_token_is_lost_on_every_way(target: Target) -> None:
    """A lease that has gone back is LEASE_LOST for reports, calls without a session, and its input."""
    job = await target.due_job()
    async with session(target) as it:
        old = await it.lease_of(job.job_id)
        async with session(target, incarnation_id=it.executor.incarnation_id) as again:
            await _require_lost(target, again, old)
    first = (await target.control.attempts(job.job_id))[0]
    require(first.outcome == job_pb2.ATTEMPT_OUTCOME_GIVEN_BACK, f"the attempt ended as {first.outcome}")


async def a_token_of_nobody_is_lost_on_every_way(target: Target) -> None:
    """A token that was never given, for a job that runs or for none, is LEASE_LOST on every way."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        epoch = lease.token.split(".")[0]
        for forged in (pb.Lease(job_id=job.job_id, token=f"{epoch}.made-up", attempt=1), unknown_lease()):
            await _require_lost(target, it, forged)
        require((await it.succeed(lease)).outcome == _ACCEPTED, "the true lease is refused")


async def _require_lost(target: Target, it: Session, lease: pb.Lease) -> None:
    for report in (peers.success(lease), peers.failure(lease), peers.stopped(lease)):
        (answer,) = await it.report(report)
        require(answer.outcome == _LOST, f"a report of {report.WhichOneof('end')} gets {answer.outcome}")
    result = pb.ReportResultRequest(lease=ref(lease), success=peers.success_of(lease))
    await refused(target.execute("ReportResult", result), "LEASE_LOST", when="ReportResult")
    failed = pb.ReportFailureRequest(lease=ref(lease), failure=peers.failure(lease).failure)
    await refused(target.execute("ReportFailure", failed), "LEASE_LOST", when="ReportFailure")
    stream = target.execution.GetSnapshot(pb.GetSnapshotRequest(lease=ref(lease)), metadata=target.metadata)
    await refused(target.collected("GetSnapshot", stream), "LEASE_LOST", when="GetSnapshot")


THEME = Theme(
    "fencing",
    (
        a_stale_lease_changes_nothing,
        an_old_token_is_lost_on_every_way,
        a_token_of_nobody_is_lost_on_every_way,
    ),
    executing=True,
)
