"""Kills of a worker with results under way: anywhere, and in gaps that are held open around the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.cases.case import Part
from verification.evidence.ledger import FINISHED, STARTED
from verification.evidence.tables import OF_RUN
from verification.peers.channel import channel_to
from verification.peers.cuttable import Direction, cuttable
from verification.peers.executor import ScriptedExecutor, failure, heartbeat, success
from verification.stage.holds import held
from verification.stage.meanwhile import meanwhile
from verification.stage.spare_services import spare_worker
from verification.stage.stack import Life
from verification.stage.stage import OPEN, Stage
from verification.unmet import require

_KILLS = 50
_KILLS_IN_GAPS = 10
_AT_ONCE = 6
_BACKLOG = 24
"""Jobs that are open at a time, so that results come all the time."""
_WORK_SECONDS = 0.3
_FEEDING_SECONDS = 0.2
_KILLED_WITHIN_SECONDS = 0.5
_RECONNECT_SECONDS = 0.5
_WAIT_SECONDS = 60.0

# One statement has one snapshot: what one transaction wrote is there as a whole, or not at all.
_TRACES = f"""
select coalesce(array_agg(distinct traces), '{{}}') from (
    select format('%s/%s/%s/%s/%s', (state = 'SUCCEEDED')::integer,
        (select count(*) from synthetic_results r where r.job_id = j.job_id),
        (select count(*) from job_events e where e.job_id = j.job_id and e.kind = 'succeeded'),
        (select count(*) from outbox o where o.aggregate_id = j.job_id and o.event_type = 'job.succeeded'),
        (select count(*) from attempts a where a.job_id = j.job_id and a.outcome = 'succeeded')) as traces
    from jobs j where {OF_RUN} and (job_id::text = $2 or $2 = '')) t
"""
"""State, projections, events, outgoing events and successful attempts of each job."""
_WHOLE = "1/1/1/1/1"
_NOTHING = "0/0/0/0/0"
_ALL_OR_NOTHING = (_WHOLE, _NOTHING)

_HOLD_ENDS = "lock table attempts in share mode"
"""An attempt's end is written last: whoever waits for this has projected, and has not committed."""
_PROJECTED_AND_WAITING = """
select count(*) from pg_locks waiting join pg_locks written using (pid)
where waiting.relation = 'attempts'::regclass and not waiting.granted
    and written.relation = 'synthetic_results'::regclass and written.granted
"""


async def killed_at_random(stage: Stage) -> None:
    """A worker that is killed again and again while results come leaves each job's whole or nothing of it."""
    kills = stage.scaled(_KILLS, at_least=3)
    async with spare_worker(stage) as worker:
        await stage.executors.start_all(
            *("a", "b"),
            execution_address=worker.address,
            reconnect_seconds_max=_RECONNECT_SECONDS,
            queues__drill__at_once=_AT_ONCE,
        )
        async with meanwhile(_feed(stage)):
            for _ in range(kills):
                await _until_done(stage, await stage.jobs("SUCCEEDED") + 1)
                await asyncio.sleep(stage.random.uniform(0, _KILLED_WITHIN_SECONDS))
                await worker.kill()
                await _require_all_or_nothing(stage)
                await worker.start()
        await stage.until_ended(seconds=_WAIT_SECONDS)
    await _require_all_or_nothing(stage, allowed=[_WHOLE])
    stage.notes["kills"] = kills
    stage.notes["results"] = await stage.jobs("SUCCEEDED")


async def killed_before_commit(stage: Stage) -> None:
    """A worker that is killed between projection and commit leaves nothing; the report is accepted then."""
    for _ in range(stage.scaled(_KILLS_IN_GAPS, at_least=2)):
        async with stage.scripted("reporting") as executor:
            lease = await _leased(stage, executor)
            async with held(stage, _HOLD_ENDS):
                await executor.send(reports=[success(lease)])
                await stage.until_value(
                    _PROJECTED_AND_WAITING,
                    holds=lambda count: count == 1,
                    seconds=_WAIT_SECONDS,
                    what="a projection that waits for its commit",
                )
                life = stage.kill("worker")
            await executor.until_over()
            require(not executor.answers, f"before the commit it was answered {executor.answers}")
        await _serving_again(stage, life)
        await _require_all_or_nothing(stage, lease.job_id, allowed=[_NOTHING])
        await _report_again(stage, lease, executor.incarnation_id, lost=False)


async def killed_after_commit(stage: Stage) -> None:
    """A worker that is killed between commit and answer has ended the job; the same report is accepted."""
    for _ in range(stage.scaled(_KILLS_IN_GAPS, at_least=2)):
        async with (
            cuttable(f"//{stage.stack.execution}") as way,
            ScriptedExecutor.connected(way.address, name="reporting", history=stage.history) as executor,
        ):
            lease = await _leased(stage, executor)
            way.swallow(Direction.TO_CLIENT)
            await executor.send(reports=[success(lease)])
            await _until_succeeded(stage, lease.job_id)
            life = stage.kill("worker")
            way.reset()
            await executor.until_over()
            require(not executor.answers, f"an answer came by a way that swallows it: {executor.answers}")
        await _serving_again(stage, life)
        await _report_again(stage, lease, executor.incarnation_id, lost=True)


async def executor_never_answered(stage: Stage) -> None:
    """An executor whose result was committed and never answered runs nothing twice, and takes new work."""
    for turn in range(stage.scaled(_KILLS_IN_GAPS, at_least=2)):
        async with cuttable(f"//{stage.stack.execution}") as way:
            executor = await stage.executors.start(
                f"a{turn}", execution_address=way.address, reconnect_seconds_max=_RECONNECT_SECONDS
            )
            first = await stage.control.create(stage.work(duration_seconds=1))
            await stage.until_begun(first.job_id)
            way.swallow(Direction.TO_CLIENT)
            await _until_succeeded(stage, first.job_id)
            life = stage.kill("worker")
            way.heal()
            way.reset()
            await _serving_again(stage, life)
            second = await stage.control.create(stage.work())
            ended = await stage.control.until_ended(second.job_id, seconds=_WAIT_SECONDS)
            require(ended.state == job_pb2.JOB_STATE_SUCCEEDED, f"job {second.job_id} did not succeed")
            phases = stage.ledger.phases_of(first.job_id)
            require(phases == [STARTED, FINISHED], f"the handler whose result was committed wrote {phases}")
            exit_code = await executor.stop()
            left = "left_unanswered" in executor.log
            require(
                exit_code == 0 and not left, f"the executor ended with {exit_code}; a report is open: {left}"
            )
    await _require_all_or_nothing(stage, allowed=[_WHOLE])


async def _leased(stage: Stage, executor: ScriptedExecutor) -> pb.Lease:
    """Create a job and have the executor accept its lease."""
    await executor.hello(credits=1)
    await stage.control.create(stage.work())
    # Entries that a killed worker left keep others out of a stream until they are taken over.
    await stage.until(lambda: executor.leases, seconds=_WAIT_SECONDS, what="a lease")
    lease = executor.leases[0]
    await executor.beat(heartbeat(lease))
    return lease


async def _report_again(stage: Stage, lease: pb.Lease, incarnation_id: str, *, lost: bool) -> None:
    """Come back as the same executor, and repeat the report: the answer is the first one's.

    Args:
        lost: Whether the lease has ended by the first report.
    """
    async with stage.scripted("reporting") as executor:
        welcome = await executor.hello(incarnation_id=incarnation_id, held=[lease])
        require(len(welcome.lost) == lost, f"the welcome says that {welcome.lost} is lost")
        for _ in range(2):
            (answer,) = await executor.report(success(lease))
            accepted = answer.outcome == pb.REPORT_OUTCOME_ACCEPTED
            require(accepted, f"the repeated report was answered {answer}")
            await _require_all_or_nothing(stage, lease.job_id, allowed=[_WHOLE])
        (answer,) = await executor.report(failure(lease))
        require(answer.outcome == pb.REPORT_OUTCOME_REFUSED, f"another report was answered {answer}")
    job = await stage.control.get(lease.job_id)
    require((job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), f"the job ended as {job}")


async def _serving_again(stage: Stage, life: Life) -> None:
    """Wait until the worker after that life can be called."""
    await stage.restarted(life)
    async with channel_to(stage.stack.execution) as channel:
        await asyncio.wait_for(channel.channel_ready(), _WAIT_SECONDS)


async def _until_done(stage: Stage, count: int) -> None:
    await stage.until_jobs(
        "SUCCEEDED", holds=lambda done: done >= count, seconds=_WAIT_SECONDS, what="more results"
    )


async def _until_succeeded(stage: Stage, job_id: str) -> None:
    await stage.until_value(
        "select state from jobs where job_id = $1",
        job_id,
        holds=lambda state: state == "SUCCEEDED",
        seconds=_WAIT_SECONDS,
        what="the result to be committed",
    )


async def _require_all_or_nothing(
    stage: Stage, job_id: str = "", *, allowed: Collection[str] = _ALL_OR_NOTHING
) -> None:
    """Require that each job of the run, or this one, shows all traces of a success or none."""
    found = await stage.value(_TRACES, stage.run, job_id)
    require(
        found and set(found) <= set(allowed),
        f"state, projections, events, outgoing events and attempts of a success are there {found} times",
    )


async def _feed(stage: Stage) -> None:
    """Keep so many jobs open that results come all the time."""
    while True:
        missing = _BACKLOG - await stage.jobs(*OPEN)
        work = stage.work(duration_seconds=_WORK_SECONDS)
        await asyncio.gather(*(stage.control.create(work) for _ in range(missing)))
        await asyncio.sleep(_FEEDING_SECONDS)


PARTS: tuple[Part, ...] = (
    killed_at_random,
    killed_before_commit,
    killed_after_commit,
    executor_never_answered,
)
