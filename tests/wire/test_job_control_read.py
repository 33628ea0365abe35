from __future__ import annotations

from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.jobs import Artifact, JobError
from shared.domain.leases import Heartbeat
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support import storage
from tests.support.control_service import Control, a_success, control_running

LOST = JobError("PROVIDER_TIMEOUT", "the provider took too long", "10.0.0.7 did not answer in 30 s")


def job_id(job: job_pb2.Job) -> JobId:
    return JobId(UUID(job.job_id))


async def test_a_running_job_shows_its_attempt_and_progress(control: Control) -> None:
    job = await control.create()
    lease = await storage.a_lease(control.transactions, job_id=job_id(job))
    async with control.transactions.begin() as transaction:
        await transaction.leases.extend([Heartbeat(lease.ref, 40, "page 2 of 5")])
    shown = await control.get(job.job_id)
    assert (shown.state, shown.attempt) == (job_pb2.JOB_STATE_RUNNING, 1)
    assert (shown.progress, shown.progress_message) == (40, "page 2 of 5")
    assert shown.HasField("start_time")
    assert not shown.HasField("next_attempt_time")


async def test_the_error_of_the_last_attempt_shows_while_the_job_goes_on_and_then_is_the_jobs(
    control: Control,
) -> None:
    job = await control.create()
    lease = await storage.a_lease(control.transactions, job_id=job_id(job))
    await storage.end_attempt(control.transactions, lease.ref, AttemptEnd(AttemptOutcome.FAILED, LOST))
    shown = await control.get(job.job_id)
    assert shown.state == job_pb2.JOB_STATE_RUNNING
    assert not shown.HasField("error")
    assert shown.last_attempt_error.code == "PROVIDER_TIMEOUT"
    assert (shown.failure_count, shown.HasField("next_attempt_time")) == (1, True)

    lease = await storage.a_lease(control.transactions, job_id=job_id(job), attempt=2)
    final = AttemptEnd(AttemptOutcome.FAILED, storage.FINAL)
    await storage.end_attempt(control.transactions, lease.ref, final)
    shown = await control.get(job.job_id)
    assert shown.state == job_pb2.JOB_STATE_FAILED
    assert shown.error.code == "INPUT_BROKEN"
    assert not shown.HasField("last_attempt_error")
    assert shown.HasField("finish_time")


async def test_a_success_shows_output_and_artifacts(control: Control) -> None:
    artifacts = [Artifact("item", f"a{n}", n, b'{"n":%d}' % n) for n in (1, 2, 3)]
    made = await a_success(control, artifacts)
    shown = await control.get(made)
    assert (shown.state, shown.progress) == (job_pb2.JOB_STATE_SUCCEEDED, 100)
    assert (shown.artifact_count, shown.output_hash) == (3, "ab" * 32)
    assert [(each.artifact_id, each.ordinal, each.content) for each in shown.artifacts] == [
        ("a1", 1, b""),
        ("a2", 2, b""),
        ("a3", 3, b""),
    ]
    output = await control.stub.GetJobOutput(pb.GetJobOutputRequest(job_id=made))
    assert (output.output, output.output_hash) == (b'{"items":1}', "ab" * 32)


async def test_a_job_that_has_not_succeeded_has_no_output(control: Control) -> None:
    job = await control.create()
    output = await control.stub.GetJobOutput(pb.GetJobOutputRequest(job_id=job.job_id))
    assert output == pb.GetJobOutputResponse()


async def test_a_job_cancelled_between_attempts_does_not_blame_the_last_one(control: Control) -> None:
    job = await control.create()
    lease = await storage.a_lease(control.transactions, job_id=job_id(job))
    await storage.end_attempt(control.transactions, lease.ref, AttemptEnd(AttemptOutcome.FAILED, LOST))
    await control.stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))
    shown = await control.get(job.job_id)
    assert shown.state == job_pb2.JOB_STATE_CANCELLED
    assert not shown.HasField("error")
    assert not shown.HasField("last_attempt_error")
    watch = control.watch(job.job_id, after_event_number=4)
    cancelled = (await watch.read()).event
    assert cancelled.kind == job_pb2.JOB_EVENT_KIND_CANCELLED
    assert not cancelled.HasField("error")
    watch.cancel()


async def test_a_job_that_came_too_late_says_why_it_was_cancelled(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with control_running(
        database_url, redis_url, redis_prefix, loops={"start_by_seconds": 0.05}
    ) as control:
        job = await control.create(start_by_time=Timestamp(seconds=1))
        watch = control.watch(job.job_id)
        updates = [await watch.read() for _ in range(3)]
        assert [each.WhichOneof("update") for each in updates] == ["event", "event", "ended"]
        assert updates[1].event.error.code == "START_BY_PASSED"
        shown = await control.get(job.job_id)
        assert shown.state == job_pb2.JOB_STATE_CANCELLED
        assert shown.error.code == "START_BY_PASSED"
