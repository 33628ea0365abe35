"""Case 1, over the wire: whatever is said under the token of a lease that was lost is refused."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import execution_service_pb2_grpc as pb_grpc
from shared.gen.baton.v1 import job_control_pb2, job_pb2
from verification.cases import views
from verification.evidence import tables
from verification.peers.channel import channel_to
from verification.peers.control import Refused
from verification.peers.executor import (
    ScriptedExecutor,
    failure,
    give_back,
    hash_of,
    heartbeat,
    pieces,
    ref,
    stopped,
    success,
    success_of,
)
from verification.stage.stage import Stage
from verification.unmet import Unmet, require

TAKE_OVER_SECONDS = 40.0
"""Until a lease is lost and the next attempt runs; a quarter of it on a machine with nothing else to do."""
_STALE_PROGRESS = 77
_STALE_TEXT = "from the dead"

Rows = Mapping[str, Any]


async def stores_nothing(stage: Stage) -> None:
    """Whatever is said under a stale token is refused and stores nothing, whoever holds the job meanwhile."""
    async with stage.scripted("twin") as a, stage.scripted("twin") as b:
        job = await stage.control.create()
        watching = stage.beside(stage.control.watch_to_end(job.job_id))
        stale = await _lost_lease(stage, a, job.job_id)
        await _require_refused(stage, a, stale)  # between two attempts
        await b.hello(credits=1)
        current = await b.lease()
        async with b.beating(current):
            await b.beat(heartbeat(current, progress=20, progress_message="alive"))
            await b.send(pieces=pieces(current, "one ", "two "))
            await b.until(lambda: 2 in b.pieces_recorded)  # noqa: PLR2004 - the second of two
            await _require_refused(stage, a, stale)
            await _require_progress(stage, job.job_id, 20, "alive")
            answer = await b.succeed(current, piece_count=2, pieces_hash=hash_of("one ", "two "))
        _require_outcome(answer, pb.REPORT_OUTCOME_ACCEPTED)
        await _require_refused(stage, a, stale)  # after the end
        _require_none_of_it(await watching)
        await _require_pieces(stage, job.job_id, ["one ", "two "])
        await require_won(stage, job.job_id)
        await _require_new_work_taken(stage, a, stale)


async def of_ones_own_is_refused(stage: Stage) -> None:
    """An executor that gets the next attempt of a job that it lost can do nothing with its first token."""
    async with stage.scripted("a") as a:
        job = await stage.control.create()
        watching = stage.beside(stage.control.watch_to_end(job.job_id))
        stale = await _lost_lease(stage, a, job.job_id)
        await a.credit(1)
        current = (await a.leases_when(2))[1]
        require(current.attempt == 2, f"the second lease is for attempt {current.attempt}")  # noqa: PLR2004
        async with a.beating(current):
            # In one frame, as an executor would that confuses the two.
            await a.beat(
                heartbeat(stale, progress=_STALE_PROGRESS, progress_message=_STALE_TEXT),
                heartbeat(current, progress=20, progress_message="alive"),
            )
            await _require_refused(stage, a, stale)
            await _require_progress(stage, job.job_id, 20, "alive")
            _require_outcome(await a.succeed(current), pb.REPORT_OUTCOME_ACCEPTED)
        _require_none_of_it(await watching)
        await _require_pieces(stage, job.job_id, [])
        await require_won(stage, job.job_id)


async def speaks_for_nobody_else(stage: Stage) -> None:
    """Heartbeats under a stale token, and for another job, keep no lease of an executor that is silent."""
    async with stage.scripted("twin") as a, stage.scripted("twin") as b:
        job = await stage.control.create()
        stale = await _lost_lease(stage, a, job.job_id)
        await b.hello(credits=1)
        silent = await b.lease()
        await b.beat(heartbeat(silent))
        await a.credit(1)
        await stage.control.create()
        own = (await a.leases_when(2))[1]
        async with a.beating(own), a.beating(stale):
            await _until_lost(stage, job.job_id, silent.attempt)
        _require_outcome(await a.succeed(own), pb.REPORT_OUTCOME_ACCEPTED)


async def _lost_lease(stage: Stage, executor: ScriptedExecutor, job_id: str) -> pb.Lease:
    """Take a job, accept its lease, and be silent until it is lost."""
    await executor.hello(credits=1)
    lease = await executor.lease()
    await executor.beat(heartbeat(lease, progress=10))
    await _until_lost(stage, job_id, 1)
    return lease


async def _until_lost(stage: Stage, job_id: str, attempt: int) -> None:
    await stage.until_value(
        "select outcome from attempts where job_id = $1 and attempt = $2",
        *(job_id, attempt),
        holds=lambda outcome: outcome == "lost",
        seconds=TAKE_OVER_SECONDS,
        what="the silent executor's lease to be lost",
    )


async def _require_refused(stage: Stage, executor: ScriptedExecutor, stale: pb.Lease) -> None:
    """Say everything that can be said under a stale token; require that it is refused, and stores nothing."""
    before = await _stored(stage, stale.job_id)
    await _require_lost(
        executor,
        stale,
        "a heartbeat",
        heartbeats=[heartbeat(stale, progress=_STALE_PROGRESS, progress_message=_STALE_TEXT)],
    )
    await _require_lost(executor, stale, "a piece", pieces=pieces(stale, _STALE_TEXT, first=1))
    await _require_lost(executor, stale, "a later piece", pieces=pieces(stale, _STALE_TEXT, first=3))
    await executor.send(cancels_seen=[ref(stale)])
    for report in (
        success(stale),
        failure(stale, "INPUT_BROKEN"),
        give_back(stale, pb.GIVE_BACK_REASON_REFUSED),
        give_back(stale, pb.GIVE_BACK_REASON_PROCESS_DIED, alone=True),
        stopped(stale),
    ):
        (answer,) = await executor.report(report)
        _require_outcome(answer, pb.REPORT_OUTCOME_LEASE_LOST)
    await _require_calls_refused(stage, stale)
    after = await _stored(stage, stale.job_id)
    changed = [place for place in before if before[place] != after[place]]
    require(not changed, f"a stale token changed {[(each, before[each], after[each]) for each in changed]}")


async def _require_lost(executor: ScriptedExecutor, stale: pb.Lease, what: str, **frame: Any) -> None:
    before = len(executor.lost)
    await executor.send(**frame)
    try:
        await executor.until(lambda: ref(stale) in executor.lost[before:])
    except TimeoutError:
        raise Unmet(f"{what} under a stale token was not answered with `lost`") from None


async def _require_calls_refused(stage: Stage, stale: pb.Lease) -> None:
    """The same outside a session."""
    broken = failure(stale, "INPUT_BROKEN").failure
    async with channel_to(stage.stack.execution) as channel:
        stub = pb_grpc.ExecutionServiceStub(channel)

        async def snapshot() -> None:
            async for _ in stub.GetSnapshot(pb.GetSnapshotRequest(lease=ref(stale))):
                pass

        calls: Mapping[str, Callable[[], Awaitable[object]]] = {
            "ReportResult": lambda: stub.ReportResult(
                pb.ReportResultRequest(lease=ref(stale), success=success_of(stale))
            ),
            "ReportFailure": lambda: stub.ReportFailure(
                pb.ReportFailureRequest(lease=ref(stale), failure=broken)
            ),
            "GetSnapshot": snapshot,
        }
        for method, call in calls.items():
            reason = await _reason(method, call)
            require(reason == "LEASE_LOST", f"{method} under a stale token was answered with {reason}")


async def _reason(method: str, call: Callable[[], Awaitable[object]]) -> str:
    try:
        await call()
    except grpc.aio.AioRpcError as error:
        return str(Refused(method, error).reason)
    return "OK"


async def _stored(stage: Stage, job_id: str) -> Rows:
    """All rows about a job, without what changes though nobody says anything under the stale token."""
    rows = (await tables.read(stage.stack.database_url, stage.run))[job_id]
    leases = [{**each, "heartbeat_time": None} for each in rows.leases]
    return {
        "jobs": rows.jobs,
        "leases": leases,
        "attempts": rows.attempts,
        "events": rows.events,
        "artifacts": rows.artifacts,
        "pieces": rows.pieces,
        "results": rows.results,
        "outgoing": len(rows.outgoing),
    }


async def _require_new_work_taken(stage: Stage, executor: ScriptedExecutor, stale: pb.Lease) -> None:
    """Require that an executor whose lease was lost goes on, on its old stream and on a new one."""
    known = len(executor.leases)
    await executor.credit(1)
    job = await stage.control.create()
    lease = (await executor.leases_when(known + 1))[-1]
    require(lease.job_id == job.job_id, f"the new lease is for job {lease.job_id}, not {job.job_id}")
    async with stage.scripted("twin") as again:
        welcome = await again.hello(incarnation_id=executor.incarnation_id, held=[stale, lease])
        require(list(welcome.lost) == [ref(stale)], f"a hello that names both leases lost {welcome.lost}")
        require(list(welcome.kept) == [ref(lease)], f"a hello that names both leases kept {welcome.kept}")
        _require_outcome(await again.succeed(lease), pb.REPORT_OUTCOME_ACCEPTED)


async def require_won(stage: Stage, job_id: str) -> None:
    """Require that attempt 1 was lost, attempt 2 succeeded, and everything that is left is of attempt 2."""
    job = await views.require_agreement(stage, job_id)
    await views.require_outcomes(stage, job_id, ["LOST", "SUCCEEDED"])
    require(job.state == job_pb2.JOB_STATE_SUCCEEDED, f"the job is {views.word(job_pb2.JobState, job.state)}")
    counted = (job.loss_count, job.failure_count)
    require(counted == (1, 0), f"{counted[0]} losses and {counted[1]} failures are counted")
    output = await stage.control.insist("GetJobOutput", job_control_pb2.GetJobOutputRequest(job_id=job_id))
    require(json.loads(output.output)["attempt"] == 2, f"the output is {output.output!r}")  # noqa: PLR2004
    results = await stage.value("select array_agg(attempt) from synthetic_results where job_id = $1", job_id)
    require(results == [2], f"results of the attempts {results} are stored")
    answered = await stage.value(
        "select report_hash || answer from attempts where job_id = $1 and attempt = 1", job_id
    )
    require(not answered, f"a report on the lost attempt is kept, with {answered}")


async def _require_progress(stage: Stage, job_id: str, percent: int, message: str) -> None:
    job = await stage.control.get(job_id)
    told = (job.progress, job.progress_message)
    require(told == (percent, message), f"the progress is {told}, and the lease's holder said {percent}")


async def _require_pieces(stage: Stage, job_id: str, texts: list[str]) -> None:
    found = await stage.value(
        "select coalesce(array_agg(content order by attempt, number), '{}') from output_pieces"
        " where job_id = $1",
        job_id,
    )
    require(list(found) == texts, f"the pieces {found} are stored, not {texts}")


def _require_none_of_it(updates: Any) -> None:
    """Require that a watcher was told nothing that was said under the stale token."""
    for each in updates:
        told = (each.progress.progress == _STALE_PROGRESS, _STALE_TEXT in str(each))
        require(not any(told), f"a watcher was told what came under a stale token: {each}")


def _require_outcome(answer: pb.ReportAnswer, outcome: pb.ReportOutcome.ValueType) -> None:
    expected, found = pb.ReportOutcome.Name(outcome), pb.ReportOutcome.Name(answer.outcome)
    require(answer.outcome == outcome, f"a report was answered with {found}, not {expected}")
