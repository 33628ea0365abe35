"""Case 12: who is silent, slow or early by the database's clock, and who is not to blame for it."""

from __future__ import annotations

import asyncio
from datetime import UTC

from shared.gen.baton.v1 import execution_service_pb2 as pb
from verification.cases import views
from verification.cases.case import Case
from verification.peers.executor import ScriptedExecutor, failure, heartbeat
from verification.stage.freezing import frozen
from verification.stage.holds import held
from verification.stage.spare_services import spare_worker
from verification.stage.stage import GRACE_SECONDS, LOST_AFTER_SECONDS, Stage
from verification.unmet import require

_TIMEOUT_SECONDS = 4.0
_REAPER_SECONDS = 0.5
_STALL_SECONDS = _TIMEOUT_SECONDS + GRACE_SECONDS + LOST_AFTER_SECONDS
"""Longer than a lease lives unheard, and than an attempt may take."""
_REAPER_LOOKS_SECONDS = 3 * _REAPER_SECONDS
"""After a stall; well below what an executor has for its next heartbeat."""
_RETRY_AFTER_SECONDS = 2
_WAIT_SECONDS = 40.0
_SLACK = 3
"""How many times as long anything may take on a machine that is busy with others."""

_HAS_PULSE = "select clock_timestamp() - pulse_time < interval '1 second' from pulse"
_DELIVERED = "select count(*) from outbox where aggregate_id = $1 and state = 'delivered'"
_HOLD_JOB = "select job_id from jobs where job_id = $1 for update"
_OUTCOME = "select outcome from attempts where job_id = $1 and attempt = 1"
_TOOK = (
    "select extract(epoch from end_time - start_time)::float8 from attempts where job_id = $1 and attempt = 1"
)
_WAITED = """
select extract(epoch from second.start_time - first.end_time)::float8
from attempts first join attempts second using (job_id)
where job_id = $1 and first.attempt = 1 and second.attempt = 2
"""


async def a_service_that_hangs_costs_no_lease(stage: Stage) -> None:
    """While the worker hangs nobody can be heard; afterwards a lease has the time that it had before."""
    async with stage.scripted("a") as a:
        await a.hello(credits=1)
        job = await stage.control.create()
        lease = await a.lease()
        await a.beat(heartbeat(lease))
        with frozen(stage.stack.process_id("worker")):
            await asyncio.sleep(_STALL_SECONDS)
        await stage.until_value(_HAS_PULSE, holds=bool, seconds=_WAIT_SECONDS, what="the worker's pulse")
        await asyncio.sleep(_REAPER_LOOKS_SECONDS)
        async with stage.scripted("a") as again:  # the old stream need not have outlived the silence
            welcome = await again.hello(incarnation_id=a.incarnation_id, held=[lease])
            found = await views.outcomes(stage, job.job_id)
            require(welcome.kept, f"the lease of an executor that nobody could hear is gone: {found}")
            answer = await again.succeed(lease)
            told = pb.ReportOutcome.Name(answer.outcome)
            require(answer.outcome == pb.REPORT_OUTCOME_ACCEPTED, f"its result was answered with {told}")
    await views.require_outcomes(stage, job.job_id, ["SUCCEEDED"])


async def a_service_that_wakes_up_grants_nothing_to_who_has_left(stage: Stage) -> None:
    """A worker that hung while its executor went to another claims nothing for the session that was left."""
    async with (
        spare_worker(stage) as replica,
        stage.scripted("a") as left,
        ScriptedExecutor.connected(replica.address, name="a", history=stage.history) as moved,
    ):
        await left.hello(credits=1)
        with frozen(stage.stack.process_id("worker")):
            await moved.hello(incarnation_id=left.incarnation_id)
            job = await stage.control.create()
            await stage.until_value(
                _DELIVERED, job.job_id, holds=bool, seconds=_WAIT_SECONDS, what="an entry for the worker"
            )
        await left.until_over()
        require(not left.leases, "a session that another one had replaced was given a lease")
        await moved.credit(1)
        await moved.succeed(await moved.lease())
    await views.require_outcomes(stage, job.job_id, ["SUCCEEDED"])


async def an_attempt_ends_in_time(stage: Stage) -> None:
    """An executor that sends heartbeats for ever keeps its job until time-out and grace are over."""
    async with stage.scripted("a") as a:
        await a.hello(credits=1)
        job = await stage.control.create()
        lease = await a.lease()
        async with a.beating(lease):
            outcome = await _ended(stage, job.job_id)
            answer = await a.succeed(lease)
        require(outcome == "timed_out", f"an attempt without end was ended as {outcome}")
        told = pb.ReportOutcome.Name(answer.outcome)
        require(told == "REPORT_OUTCOME_LEASE_LOST", f"a result after the end was answered with {told}")
    took, least = await stage.value(_TOOK, job.job_id), _TIMEOUT_SECONDS + GRACE_SECONDS
    stage.notes["ended after seconds"] = round(took, 1)
    require(
        least <= took <= _SLACK * least, f"an attempt of {least:.0f} s at most was ended after {took:.1f} s"
    )
    counted = await stage.control.get(job.job_id)
    require(counted.failure_count == 1, f"the time-out is counted as {counted.failure_count} failures")


async def nothing_begins_before_it_is_due(stage: Stage) -> None:
    """A job with a run time, and the attempt after a failure, wait for their time beside open credits."""
    async with stage.scripted("a") as a:
        await a.hello(credits=4)
        failing = await stage.control.create()
        lease = await a.lease()
        report = failure(lease, "PROVIDER_UNAVAILABLE")
        report.failure.retry_after.FromSeconds(_RETRY_AFTER_SECONDS)
        due = await stage.due_in(_RETRY_AFTER_SECONDS)
        later = await stage.control.create(run_time=due)
        await a.report(report)
        for each in (await a.leases_when(3))[1:]:
            await a.succeed(each)
    waited = await stage.value(_WAITED, failing.job_id)
    require(waited >= _RETRY_AFTER_SECONDS, f"attempt 2 began {waited:.2f} s after the end of attempt 1")
    begun = (await stage.control.get(later.job_id)).start_time
    early = (due - begun.ToDatetime(UTC)).total_seconds()
    require(early <= 0, f"a job began {early:.3f} s before its run time")


async def a_job_that_is_held_holds_no_other(stage: Stage) -> None:
    """While somebody's transaction has one job locked, another's silent executor is lost all the same."""
    async with stage.scripted("a") as a:
        await a.hello(credits=2)
        jobs = [(await stage.control.create()).job_id for _ in range(2)]
        await a.beat(*map(heartbeat, await a.leases_when(2)))
        first, second = sorted(jobs)
        async with held(stage, _HOLD_JOB, first):
            outcome = await _ended(stage, second)
            require(outcome == "lost", f"the attempt of a silent executor was ended as {outcome}")
            require(not await stage.value(_OUTCOME, first), "an attempt ended though its job is locked")
        await _ended(stage, first)


async def _ended(stage: Stage, job_id: str) -> str:
    """Wait until a job's first attempt has ended, and return how."""
    found = await stage.until_value(
        _OUTCOME, job_id, holds=bool, seconds=_WAIT_SECONDS, what=f"attempt 1 of job {job_id} to end"
    )
    return str(found)


CASE = Case(
    12,
    "times",
    (
        a_service_that_hangs_costs_no_lease,
        a_service_that_wakes_up_grants_nothing_to_who_has_left,
        an_attempt_ends_in_time,
        nothing_begins_before_it_is_due,
        a_job_that_is_held_holds_no_other,
    ),
    settings={
        "BATON_JOB_TYPES__SYNTHETIC__TIMEOUT_SECONDS": str(_TIMEOUT_SECONDS),
        "BATON_LOOPS__REAPER_SECONDS": str(_REAPER_SECONDS),
    },
)
