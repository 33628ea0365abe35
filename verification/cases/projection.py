"""Case 8: a result becomes durable as a whole or not at all, whatever fails or is killed in between."""

from __future__ import annotations

import grpc

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import execution_service_pb2_grpc as pb_grpc
from shared.gen.baton.v1 import job_pb2
from verification.cases import projection_kills, views
from verification.cases.case import Case
from verification.evidence.ledger import FINISHED, STARTED
from verification.peers.channel import channel_to
from verification.peers.control import Refused
from verification.peers.executor import ScriptedExecutor, heartbeat, ref, success, success_of
from verification.stage.stage import Stage
from verification.unmet import Unmet, require

_DRILL = pb.Capability(job_type="projection_drill", input_schema_versions=[1], output_schema_versions=[1])
_FAULTS = ("raise", "break", "linger")
_INTERNAL = "INTERNAL_PROJECTION"
_TOO_LARGE = "PAYLOAD_TOO_LARGE"
_LARGE_BYTES = 5_000_000
_CALL_SECONDS = 20.0
_FRAME_BYTES = 3_000_000
"""Too large for an output, and small enough for a frame."""

ACCEPTED = pb.REPORT_OUTCOME_ACCEPTED
REFUSED = pb.REPORT_OUTCOME_REFUSED
RETRY_SCHEDULED = pb.REPORT_OUTCOME_RETRY_SCHEDULED

_LEFT = """
select (select count(*) from synthetic_results where job_id = $1)
    + (select count(*) from artifacts where job_id = $1)
    + (select count(*) from outbox where aggregate_id = $1 and event_type <> 'job.dispatch')
"""


async def fails_half_way(stage: Stage) -> None:
    """A projector that fails after it has written leaves nothing, is tried once more, and harms no other."""
    async with stage.scripted("projected") as executor:
        await executor.hello(capabilities=[_DRILL])
        wanted = dict(
            zip([await _drill(stage) for _ in range(5)], [*_FAULTS, "return", "return"], strict=True)
        )
        await _report_all(stage, executor, wanted, attempt=1)
        culprits = {job_id: then for job_id, then in wanted.items() if then != "return"}
        await _report_all(stage, executor, culprits, attempt=2)
    for job_id in culprits:
        ended = await stage.control.until_ended(job_id)
        require(ended.state == job_pb2.JOB_STATE_FAILED, f"the culprit ended as {views.described(ended)}")
        require(ended.error.code == _INTERNAL, f"the culprit failed as {ended.error.code}")
        counted = ended.attempt, ended.failure_count, ended.artifact_count
        require(counted == (2, 2, 0), f"attempts, failures and artifacts were counted as {counted}")


async def fails_once(stage: Stage) -> None:
    """What a projector does at the second attempt counts alone, if it failed half-way at the first."""
    async with stage.scripted("projected") as executor:
        await executor.hello(capabilities=[_DRILL])
        job_id = await _drill(stage)
        await _report_all(stage, executor, {job_id: "raise"}, attempt=1)
        await _report_all(stage, executor, {job_id: "return"}, attempt=2)
    ended = await stage.control.until_ended(job_id)
    require(ended.state == job_pb2.JOB_STATE_SUCCEEDED, f"the job ended as {views.described(ended)}")
    require(ended.artifact_count == 1, f"the job has {ended.artifact_count} artifacts")
    written = await stage.value("select array_agg(attempt) from synthetic_results where job_id = $1", job_id)
    require(written == [2], f"the rows of its projections are of the attempts {written}")


async def too_large(stage: Stage) -> None:
    """A result of 5 MB fails its job at once and for good, and the executor goes on."""
    executor = await stage.executors.start("a", queues__drill__at_once=1)
    handlers = executor.handler_process_ids()
    large = await stage.control.create(stage.work(output_bytes=_LARGE_BYTES))
    await _require_refused_for_its_size(stage, large.job_id)
    phases = stage.ledger.phases_of(large.job_id)
    require(phases == [STARTED, FINISHED], f"the handler of the large result wrote {phases}")
    after = await stage.control.create(stage.work())
    ended = await stage.control.until_ended(after.job_id)
    require(ended.state == job_pb2.JOB_STATE_SUCCEEDED, f"the next job ended as {views.described(ended)}")
    require(executor.alive and executor.handler_process_ids() == handlers, "a process of the executor ended")


async def too_large_from_others(stage: Stage) -> None:
    """An executor that sends too large a result all the same is refused for good, and its session stands."""
    output = success_of(pb.Lease(attempt=1), {"items": 1, "attempt": 1, "padding": "x" * _FRAME_BYTES})
    async with stage.scripted("careless") as executor:
        await executor.hello(credits=1)
        large = await stage.control.create(stage.work())
        lease = await executor.lease()
        await executor.beat(heartbeat(lease))
        (answer,) = await executor.report(pb.Report(lease=ref(lease), success=output))
        require(
            (answer.outcome, answer.reason) == (REFUSED, _TOO_LARGE),
            f"it was answered {pb.ReportOutcome.Name(answer.outcome)} {answer.reason}",
        )
        await _require_refused_for_its_size(stage, large.job_id)
        await _by_a_call(stage, executor)


async def _by_a_call(stage: Stage, executor: ScriptedExecutor) -> None:
    """Hand in 5 MB without the session, and report by it afterwards that this can't be done."""
    job = await stage.control.create(stage.work())
    await executor.credit(1)
    lease = (await executor.leases_when(2))[1]
    await executor.beat(heartbeat(lease))
    document = {"items": 1, "attempt": 1, "padding": "x" * _LARGE_BYTES}
    refused = await _refusal(
        stage, pb.ReportResultRequest(lease=ref(lease), success=success_of(lease, document))
    )
    require(
        (refused.status, refused.reason) == ("INVALID_ARGUMENT", _TOO_LARGE), f"it was refused as {refused}"
    )
    answer = await executor.fail(lease, _TOO_LARGE)
    require(answer.outcome == ACCEPTED, f"the failure was answered {answer}")
    ended = await stage.control.until_ended(job.job_id)
    require(ended.error.code == _TOO_LARGE, f"the job of the large result ended as {views.described(ended)}")


async def _refusal(stage: Stage, request: pb.ReportResultRequest) -> Refused:
    async with channel_to(stage.stack.execution) as channel:
        try:
            answer = await pb_grpc.ExecutionServiceStub(channel).ReportResult(request, timeout=_CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            return Refused("ReportResult", error)
    raise Unmet(f"a result that is too large was answered {answer}")


async def _drill(stage: Stage) -> str:
    job = await stage.control.create({}, job_type="projection_drill")
    return job.job_id


async def _report_all(
    stage: Stage, executor: ScriptedExecutor, wanted: dict[str, str], *, attempt: int
) -> None:
    """Take a lease for each job, report all in one frame, and require what must come of each at once."""
    before = len(executor.leases)
    await executor.credit(len(wanted))
    leases = (await executor.leases_when(before + len(wanted)))[before:]
    require({each.attempt for each in leases} == {attempt}, f"the leases are {leases}")
    await executor.beat(*map(heartbeat, leases))
    answers = await executor.report(*(success(each, {"then": wanted[each.job_id]}) for each in leases))
    for lease, answer in zip(leases, answers, strict=True):
        if wanted[lease.job_id] == "return":
            require(answer.outcome == ACCEPTED, f"another job's result was answered {answer}")
            continue
        outcome = RETRY_SCHEDULED if attempt == 1 else REFUSED
        require(answer.outcome == outcome, f"a projection that failed was answered {answer}")
        left = await stage.value(_LEFT, lease.job_id)
        expected = 0 if attempt == 1 else 1
        require(left == expected, f"{left - expected} rows are left of a projection that failed")


async def _require_refused_for_its_size(stage: Stage, job_id: str) -> None:
    ended = await stage.control.until_ended(job_id)
    require(
        ended.state == job_pb2.JOB_STATE_FAILED,
        f"the job of the large result ended as {views.described(ended)}",
    )
    require(ended.error.code == _TOO_LARGE, f"it failed as {ended.error.code}")
    require("bytes" in ended.error.message, f"its error does not tell why: {ended.error.message}")
    counted = ended.attempt, ended.failure_count
    require(counted == (1, 1), f"attempts and failures were counted as {counted}")


CASE = Case(
    8,
    "projection",
    (fails_half_way, fails_once, too_large, too_large_from_others, *projection_kills.PARTS),
    settings={
        "BATON_JOB_MODULES": "verification.cases.drill_jobs",
        "BATON_SESSIONS__PROJECTION_SECONDS_MAX": "1",
    },
)
