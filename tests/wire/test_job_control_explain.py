"""Why a job is not running: every cause made real; limits are in a module of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from google.protobuf.timestamp_pb2 import Timestamp

from shared.domain.identity import Owner
from shared.domain.jobs import JobState
from shared.gen.baton.v1 import execution_service_pb2 as worker_pb
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2
from shared.gen.baton.v1 import operation_pb2 as told
from tests.support import storage
from tests.support.control_service import Control, bearing, control_running
from tests.support.execution_service import Execution, execution_running
from verification.peers.cuttable import cuttable
from verification.peers.executor import ref

Reasons = Sequence[operation_pb2.WaitReason]

TOMORROW = timedelta(days=1)
OTHER_VERSIONS = worker_pb.Capability(
    job_type="synthetic", input_schema_versions=[2], output_schema_versions=[1, 2]
)


@pytest.fixture
async def execution(
    control: Control, database_url: str, redis_url: str, redis_prefix: str
) -> AsyncIterator[Execution]:
    """A worker beside JobControl, for executors to connect to."""
    running: list[Execution] = []
    started, stop = asyncio.Event(), asyncio.Event()

    async def host() -> None:
        async with execution_running(database_url, redis_url, redis_prefix) as execution:
            running.append(execution)
            started.set()
            await stop.wait()

    hosting = asyncio.create_task(host())
    hosting.add_done_callback(lambda _: started.set())
    await started.wait()
    yield running[0]
    stop.set()
    await hosting


async def explained(control: Control, job_id: object, *, metadata: Any = ()) -> Reasons:
    request = pb.ExplainJobRequest(job_id=str(job_id))
    response: pb.ExplainJobResponse = await control.stub.ExplainJob(request, metadata=metadata)
    return response.reasons


async def explained_as(control: Control, job_id: object, *causes: Any, said: str = "") -> Reasons:
    """Ask until these causes are told: what executors are connected is told a moment later."""
    reasons: Reasons = ()
    try:
        async with asyncio.timeout(10):
            while [each.cause for each in reasons] != list(causes) or said not in reasons[-1].sentence:
                await asyncio.sleep(0.05)
                reasons = await explained(control, job_id)
    except TimeoutError:
        raise AssertionError(f"told is {reasons}") from None
    return reasons


async def changed(control: Control, statement: str, **parameters: Any) -> None:
    async with control.transactions.begin() as transaction:
        await transaction.connection.execute(sa.text(statement), parameters)


def later(span: timedelta) -> Timestamp:
    moment = Timestamp()
    moment.FromDatetime(datetime.now(UTC) + span)
    return moment


async def test_a_job_that_runs_is_told_with_its_executor(control: Control, execution: Execution) -> None:
    executor = await execution.executor(credits=1)
    job = await control.create()
    await executor.lease()
    (reason,) = await explained(control, job.job_id)
    assert reason.cause == told.WAIT_CAUSE_RUNNING
    assert reason.sentence.startswith("It runs: attempt 1 since ")
    assert reason.sentence.endswith(" UTC, by the executor scripted.")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (JobState.SUCCEEDED, "It has ended: it is SUCCEEDED, at "),
        (JobState.FAILED, "It has ended: it is FAILED with INPUT_BROKEN, at "),
        (JobState.CANCELLED, "It has ended: it is CANCELLED"),
    ],
)
async def test_a_job_that_has_ended_is_told_with_how(control: Control, state: JobState, said: str) -> None:
    (reason,) = await explained(control, await storage.job_in(control.transactions, state))
    assert reason.cause == told.WAIT_CAUSE_ENDED
    assert reason.sentence.startswith(said)


async def test_a_job_that_is_not_due_is_told_until_when(control: Control, execution: Execution) -> None:
    await execution.executor()
    run_time = later(TOMORROW)
    job = await control.create(run_time=run_time)
    (reason,) = await explained_as(control, job.job_id, told.WAIT_CAUSE_NOT_DUE)
    assert reason.until_time == (await control.get(job.job_id)).next_attempt_time
    assert abs(reason.until_time.seconds - run_time.seconds) <= 1
    assert reason.sentence.startswith("Its run time has not come: it may start at ")


async def test_a_job_that_backs_off_is_told_until_when_and_after_what(
    control: Control, execution: Execution
) -> None:
    executor = await execution.executor(credits=1)
    job = await control.create()
    await executor.fail(await executor.lease())
    await changed(
        control,
        "update jobs set next_attempt_time = engine_time() + interval '1 hour' where job_id = :job_id",
        job_id=job.job_id,
    )
    (reason,) = await explained_as(control, job.job_id, told.WAIT_CAUSE_BACKOFF)
    assert reason.until_time == (await control.get(job.job_id)).next_attempt_time
    assert reason.sentence.startswith("It backs off until ")
    assert reason.sentence.endswith(" UTC, after attempt 1; its last error is PROVIDER_TIMEOUT.")


async def test_what_is_paused_is_told_by_whom_since_when_and_why(
    control: Control, execution: Execution
) -> None:
    await execution.executor()
    job = await control.create(run_time=later(TOMORROW))
    paused = await control.stub.Pause(pb.PauseRequest(queue="drill", note="the disk is full"))
    await control.stub.Pause(pb.PauseRequest(job_type="synthetic"))
    await control.stub.Pause(pb.PauseRequest(job_type="document_import"))
    not_due, queue, job_type = await explained_as(
        control,
        job.job_id,
        told.WAIT_CAUSE_NOT_DUE,
        told.WAIT_CAUSE_QUEUE_PAUSED,
        told.WAIT_CAUSE_JOB_TYPE_PAUSED,
    )
    assert (queue.pause.subject, queue.pause.note) == ("local", "the disk is full")
    assert queue.pause == paused.pause
    assert queue.sentence.startswith("Its queue drill was paused by local at ")
    assert queue.sentence.endswith(" UTC: the disk is full.")
    assert job_type.sentence.startswith("Its job type synthetic was paused by local at ")
    assert job_type.sentence.endswith(" UTC.")
    assert not not_due.HasField("pause")
    await control.stub.Resume(pb.ResumeRequest(queue="drill"))
    _, job_type = await explained(control, job.job_id)
    assert job_type.cause == told.WAIT_CAUSE_JOB_TYPE_PAUSED


async def test_without_any_executor_that_is_said_with_type_and_versions(control: Control) -> None:
    job = await control.create()
    (reason,) = await explained(control, job.job_id)
    assert reason.cause == told.WAIT_CAUSE_NO_EXECUTOR
    assert reason.sentence == (
        "No connected executor can do synthetic with the input schema version 1"
        " and the output schema version 1."
    )


async def test_executors_of_other_versions_are_counted_and_do_not_help(
    control: Control, execution: Execution
) -> None:
    await execution.executor(capabilities=[OTHER_VERSIONS])
    job = await control.create()
    (reason,) = await explained(control, job.job_id)
    assert reason.cause == told.WAIT_CAUSE_NO_EXECUTOR
    assert reason.sentence.endswith("; 1 executor can in others.")


async def test_an_executor_of_several_versions_can_do_each_of_its_pairs(
    control: Control, execution: Execution
) -> None:
    first = worker_pb.Capability(job_type="synthetic", input_schema_versions=[1], output_schema_versions=[1])
    await execution.executor(capabilities=[OTHER_VERSIONS, first])
    job = await control.create()
    await explained_as(control, job.job_id, told.WAIT_CAUSE_BEHIND)


async def test_when_every_executor_has_refused_the_job_another_one_is_needed(
    control: Control, execution: Execution
) -> None:
    executor = await execution.executor(credits=1)
    job = await control.create()
    refusal = worker_pb.GiveBack(reason=worker_pb.GIVE_BACK_REASON_REFUSED)
    await executor.report(worker_pb.Report(lease=ref(await executor.lease()), give_back=refusal))
    (reason,) = await explained_as(control, job.job_id, told.WAIT_CAUSE_NO_EXECUTOR)
    assert reason.sentence.startswith("1 executor can do synthetic ")
    assert reason.sentence.endswith(", and refused this job: another one is needed, or a new start.")
    await execution.executor()
    await explained_as(control, job.job_id, told.WAIT_CAUSE_BEHIND)


async def test_an_executor_that_is_not_connected_any_more_is_told_as_gone(control: Control) -> None:
    await storage.a_session(control.transactions)
    job = await control.create()
    (reason,) = await explained(control, job.job_id)
    assert reason.cause == told.WAIT_CAUSE_NO_EXECUTOR
    assert reason.sentence.endswith(": of 1 executor that can we heard in the last 40 minutes, but not now.")


async def test_a_job_that_is_next_waits_for_an_executor_with_room(
    control: Control, execution: Execution
) -> None:
    await execution.executor()
    job = await control.create()
    (reason,) = await explained_as(control, job.job_id, told.WAIT_CAUSE_BEHIND)
    assert reason.count == 0
    assert reason.sentence == "No other job goes first, and all executors that can do it are busy."


async def test_jobs_that_go_first_are_counted(control: Control, execution: Execution) -> None:
    await execution.executor()
    jobs = [await control.create() for _ in range(12)]
    (reason,) = await explained_as(control, jobs[-1].job_id, told.WAIT_CAUSE_BEHIND)
    assert reason.count == 11
    assert reason.sentence == "Up to 11 jobs go first, and all executors that can do it are busy."
    urgent = await control.create(overrides=pb.JobOverrides(priority=0))
    (reason,) = await explained_as(control, urgent.job_id, told.WAIT_CAUSE_BEHIND)
    assert reason.count == 0
    (reason,) = await explained_as(control, jobs[0].job_id, told.WAIT_CAUSE_BEHIND, said="1 job goes")
    assert reason.count == 1


async def test_a_dead_dispatch_is_told_first_and_operators_are_told_how_to_send_it_again(
    guarded_control: Control,
) -> None:
    ada, root = bearing("ada", "jobs.read"), bearing("root", "jobs.admin", "jobs.read")
    job_id = await storage.a_job(guarded_control.transactions, owner=Owner("ada"))
    await changed(
        guarded_control,
        """update outbox set state = 'dead', delivered_time = null, last_error_code = 'WRONGTYPE',
        last_error_message = 'WRONGTYPE a key holds something else' where aggregate_id = :job_id""",
        job_id=job_id,
    )
    dead, nobody = await explained(guarded_control, job_id, metadata=root)
    assert (dead.cause, nobody.cause) == (told.WAIT_CAUSE_DISPATCH_DEAD, told.WAIT_CAUSE_NO_EXECUTOR)
    assert "(WRONGTYPE a key holds something else)" in dead.sentence
    listed = await guarded_control.stub.ListOutboxMessages(pb.ListOutboxMessagesRequest(), metadata=root)
    assert dead.sentence.endswith(f"`baton outbox resend {listed.messages[0].outbox_id}`.")
    (dead, _) = await explained(guarded_control, job_id, metadata=ada)
    assert dead.sentence == (
        "Its dispatch could not be delivered and is dead: an operator has to send it again."
    )


async def test_with_redis_away_that_is_said(database_url: str, redis_url: str, redis_prefix: str) -> None:
    async with (
        cuttable(redis_url) as way,
        control_running(database_url, way.url, redis_prefix) as control,
    ):
        await storage.a_session(control.transactions)
        await way.cut()
        job = await control.create()
        (reason,) = await explained_as(control, job.job_id, told.WAIT_CAUSE_BEHIND)
        assert reason.sentence == (
            "No other job goes first, and Redis is away: nothing is handed out until it is back."
        )
