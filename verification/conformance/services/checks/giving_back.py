"""What becomes of leases that go back, and to whom they go next."""

from __future__ import annotations

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.conformance.services.check import Theme
from verification.conformance.services.session import session
from verification.conformance.services.target import Target
from verification.peers import executor as peers
from verification.unmet import require

_RETRY = pb.REPORT_OUTCOME_RETRY_SCHEDULED


async def what_is_given_back_costs_nothing(target: Target) -> None:
    """A lease that is given back counts as no failure and no loss, and another attempt follows."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        await it.beat(1, lease)
        (answer,) = await it.report(peers.give_back(lease, pb.GIVE_BACK_REASON_NOT_STARTED))
        require(answer.outcome == _RETRY, f"it gets {answer.outcome}")
        second = await it.lease_of(job.job_id, attempt=2)
        require(not second.HasField("last_error"), "the next attempt is told of an error")
        await it.succeed(second)
    outcomes = [each.outcome for each in await target.control.attempts(job.job_id)]
    wanted = [job_pb2.ATTEMPT_OUTCOME_GIVEN_BACK, job_pb2.ATTEMPT_OUTCOME_SUCCEEDED]
    require(outcomes == wanted, f"its attempts ended as {outcomes}")
    shown = await target.control.get(job.job_id)
    require((shown.failure_count, shown.loss_count) == (0, 0), f"{shown.failure_count=}, {shown.loss_count=}")


async def a_process_that_died_with_one_attempt_is_a_loss(target: Target) -> None:
    """An attempt that was alone in the process that died is lost, and counts as a loss and no failure."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        died = peers.give_back(lease, pb.GIVE_BACK_REASON_PROCESS_DIED, alone=True)
        (answer,) = await it.report(died)
        require(answer.outcome == _RETRY, f"it gets {answer.outcome}")
        (attempt,) = (await target.control.attempts(job.job_id))[:1]
        require(attempt.outcome == job_pb2.ATTEMPT_OUTCOME_LOST, f"its attempt ended as {attempt.outcome}")
        shown = await target.control.get(job.job_id)
        counts = (shown.failure_count, shown.loss_count)
        require(counts == (0, 1), f"it counts as {counts[0]} failures and {counts[1]} losses")


async def a_suspect_runs_alone_next(target: Target) -> None:
    """An attempt that died beside others costs nothing, is suspect, and runs alone next."""
    job = await target.due_job()
    async with session(target) as it:
        lease = await it.lease_of(job.job_id)
        require(not lease.run_alone, "a first attempt is to run alone")
        (answer,) = await it.report(peers.give_back(lease, pb.GIVE_BACK_REASON_PROCESS_DIED))
        require(answer.outcome == _RETRY, f"it gets {answer.outcome}")
        second = await it.lease_of(job.job_id, attempt=2)
        require(second.run_alone, "the next attempt is not to run alone")
        first = (await target.control.attempts(job.job_id))[0]
        require(first.outcome == job_pb2.ATTEMPT_OUTCOME_GIVEN_BACK, f"the attempt ended as {first.outcome}")
        require(first.suspect, "the attempt is not shown as suspect")
        await it.succeed(second)


async def who_refuses_a_job_is_not_offered_it_again(target: Target) -> None:
    """A job that an executor refused goes to another one, whatever credits the first has left."""
    job = await target.due_job()
    async with session(target) as refusing, session(target) as other:
        lease = await refusing.lease_of(job.job_id)
        await refusing.report(peers.give_back(lease, pb.GIVE_BACK_REASON_REFUSED))
        await refusing.executor.credit(1)
        await other.succeed(await other.lease_of(job.job_id, attempt=2))
        offered = [each.attempt for each in refusing.executor.leases if each.job_id == job.job_id]
        require(offered == [1], f"it was offered attempts {offered}")


async def who_drains_gets_no_more_leases(target: Target) -> None:
    """An executor that gives back because it stops gets no more leases, whatever credits it has left."""
    job = await target.due_job()
    async with session(target) as draining, session(target) as other:
        lease = await draining.lease_of(job.job_id)
        await draining.executor.credit(5)
        await draining.report(peers.give_back(lease, pb.GIVE_BACK_REASON_DRAINING))
        before = len(draining.executor.leases)
        await other.succeed(await other.lease_of(job.job_id, attempt=2))
        for _ in range(3):
            await other.succeed(await other.lease_of((await target.due_job()).job_id))
        require(len(draining.executor.leases) == before, "it got another lease")


THEME = Theme(
    "giving back",
    (
        what_is_given_back_costs_nothing,
        a_process_that_died_with_one_attempt_is_a_loss,
        a_suspect_runs_alone_next,
        who_refuses_a_job_is_not_offered_it_again,
        who_drains_gets_no_more_leases,
    ),
    executing=True,
)
