"""Kills of a worker with results under way: anywhere, and in gaps that are held open around the commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial

import grpc

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.cases.case import Part
from verification.evidence.ledger import FINISHED, STARTED
from verification.peers.cuttable import Direction, cuttable
from verification.peers.executor import ScriptedExecutor, failure, heartbeat, success
from verification.stage.holds import held
from verification.stage.spare_services import spare_worker
from verification.stage.stack import Life
from verification.stage.stage import Stage
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
_CONNECT_MILLISECONDS = 200
_WAIT_SECONDS = 60.0

_OF_RUN = "labels @> jsonb_build_object('verify', $1::text)"
_OPEN = f"select count(*) from jobs where {_OF_RUN} and state in ('QUEUED', 'RUNNING')"
_DONE = f"select count(*) from jobs where {_OF_RUN} and state = 'SUCCEEDED'"

# One statement has one snapshot: what one transaction wrote is there as a whole, or not at all.
_TRACES = f"""
select coalesce(array_agg(distinct traces), '{{}}') from (
    select format('%s/%s/%s/%s/%s', (state = 'SUCCEEDED')::integer,
        (select count(*) from synthetic_results r where r.job_id = j.job_id),
        (select count(*) from job_events e where e.job_id = j.job_id and e.kind = 'succeeded'),
        (select count(*) from outbox o where o.aggregate_id = j.job_id and o.event_type = 'job.succeeded'),
        (select count(*) from attempts a where a.job_id = j.job_id and a.outcome = 'succeeded')) as traces
    from jobs j where {_OF_RUN} and (job_id::text = $2 or $2 = '')) t
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
        async with _fed(stage):
            for _ in range(kills):
                await _until_done(stage, await stage.value(_DONE, stage.run) + 1)
                await asyncio.sleep(stage.random.uniform(0, _KILLED_WITHIN_SECONDS))
                await worker.kill()
                await _is_all_or_nothing(stage)
                await worker.start()
        await stage.until_value(
            _OPEN, stage.run, holds=lambda count: count == 0, seconds=_WAIT_SECONDS, what="all jobs to end"
        )
    await _is_all_or_nothing(stage, allowed=[_WHOLE])
    stage.notes["kills"] = kills
    stage.notes["results"] = await stage.value(_DONE, stage.run)


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
        await _is_all_or_nothing(stage, lease.job_id, allowed=[_NOTHING])
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
            await stage.until(partial(stage.ledger.of, first.job_id), seconds=_WAIT_SECONDS, what="a handler")
            way.swallow(Direction.TO_CLIENT)
            await _until_succeeded(stage, first.job_id)
            life = stage.kill("worker")
            way.heal()
            way.reset()
            await _serving_again(stage, life)
            second = await stage.control.create(stage.work())
            ended = await stage.control.until_ended(second.job_id, seconds=_WAIT_SECONDS)
            require(ended.state == job_pb2.JOB_STATE_SUCCEEDED, f"job {second.job_id} did not succeed")
            phases = [each.phase for each in stage.ledger.of(first.job_id)]
            require(phases == [STARTED, FINISHED], f"the handler whose result was committed wrote {phases}")
            exit_code = await executor.stop()
            left = "left_unanswered" in executor.log
            require(
                exit_code == 0 and not left, f"the executor ended with {exit_code}; a report is open: {left}"
            )
    await _is_all_or_nothing(stage, allowed=[_WHOLE])


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
            await _is_all_or_nothing(stage, lease.job_id, allowed=[_WHOLE])
        (answer,) = await executor.report(failure(lease))
        require(answer.outcome == pb.REPORT_OUTCOME_REFUSED, f"another report was answered {answer}")
    job = await stage.control.get(lease.job_id)
    require((job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), f"the job ended as {job}")


async def _serving_again(stage: Stage, life: Life) -> None:
    """Wait until the worker after that life can be called."""
    await stage.restarted(life)
    options = [("grpc.max_reconnect_backoff_ms", _CONNECT_MILLISECONDS)]
    async with grpc.aio.insecure_channel(stage.stack.execution, options=options) as channel:
        await asyncio.wait_for(channel.channel_ready(), _WAIT_SECONDS)


async def _until_done(stage: Stage, count: int) -> None:
    await stage.until_value(
        _DONE, stage.run, holds=lambda done: done >= count, seconds=_WAIT_SECONDS, what="more results"
    )


async def _until_succeeded(stage: Stage, job_id: str) -> None:
    await stage.until_value(
        "select state from jobs where job_id = $1",
        job_id,
        holds=lambda state: state == "SUCCEEDED",
        seconds=_WAIT_SECONDS,
        what="the result to be committed",
    )


async def _is_all_or_nothing(
    stage: Stage, job_id: str = "", *, allowed: Collection[str] = _ALL_OR_NOTHING
) -> None:
    """Require that each job of the run, or this one, shows all traces of a success or none."""
    found = await stage.value(_TRACES, stage.run, job_id)
    require(
        found and set(found) <= set(allowed),
        f"state, projections, events, outgoing events and attempts of a success are there {found} times",
    )


@asynccontextmanager
async def _fed(stage: Stage) -> AsyncIterator[None]:
    """Keep so many jobs open while the block runs that results come all the time."""

    async def feed() -> None:
        while True:
            missing = _BACKLOG - await stage.open_jobs()
            work = stage.work(duration_seconds=_WORK_SECONDS)
            await asyncio.gather(*(stage.control.create(work) for _ in range(missing)))
            await asyncio.sleep(_FEEDING_SECONDS)

    feeding = asyncio.create_task(feed())
    try:
        yield
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})
    if not feeding.cancelled():
        feeding.result()


PARTS: tuple[Part, ...] = (
    killed_at_random,
    killed_before_commit,
    killed_after_commit,
    executor_never_answered,
)
