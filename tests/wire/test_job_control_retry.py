from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId, JobType, Owner
from shared.domain.jobs import JobState
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support import storage
from tests.support.control_service import NO_JOB, Control, bearing, refused
from tests.support.selected_jobs import rows

KEY = "once-more-0001"
ENDS = {
    JobState.FAILED: AttemptEnd(AttemptOutcome.FAILED, storage.FINAL),
    JobState.CANCELLED: AttemptEnd(AttemptOutcome.CANCELLED),
    JobState.SUCCEEDED: AttemptEnd(AttemptOutcome.SUCCEEDED),
}


async def retry(control: Control, job_id: object, **fields: Any) -> pb.RetryJobResponse:
    response: pb.RetryJobResponse = await control.stub.RetryJob(
        pb.RetryJobRequest(job_id=str(job_id), **fields)
    )
    return response


async def refusal_of(control: Control, job_id: object, **fields: Any) -> str:
    refusal = await refused(control.stub.RetryJob(pb.RetryJobRequest(job_id=str(job_id), **fields)))
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.reason == "JOB_NOT_RETRYABLE"
    assert refusal.metadata == {"job_id": str(job_id)}
    assert refusal.details["google.rpc.PreconditionFailure"].violations[0].type == "JOB_NOT_RETRYABLE"
    return refusal.message


async def end(control: Control, job_id: str, state: JobState) -> None:
    lease = await storage.a_lease(control.transactions, job_id=JobId(UUID(job_id)))
    await storage.end_attempt(control.transactions, lease.ref, ENDS[state])


async def everything_of(control: Control, job_id: object) -> list[Any]:
    """All that is stored about a job."""
    return [
        await rows(control, f"select * from {table} where job_id = :job_id order by 1, 2", job_id=job_id)
        for table in ("jobs", "snapshots", "attempts", "job_events", "artifacts")
    ]


async def test_a_retried_job_is_a_new_one_with_the_old_ones_input_and_wishes(control: Control) -> None:
    start_by = datetime.now(UTC) + timedelta(hours=1)
    old = await control.create(
        input=b'{ "items": 3 }',
        idempotency_key=KEY,
        target=job_pb2.Target(type="course", id="7"),
        labels={"tenant": "a"},
        overrides=pb.JobOverrides(priority=5, credential_id="mine", prompt_version="v2"),
        start_by_time=start_by,
    )
    await end(control, old.job_id, JobState.FAILED)

    response = await retry(control, old.job_id)

    new = response.job
    assert not response.replayed
    assert new.job_id != old.job_id
    assert (new.origin_job_id, new.state) == (old.job_id, job_pb2.JOB_STATE_QUEUED)
    assert (new.owner, new.target, dict(new.labels), new.priority) == (
        "local",
        old.target,
        {"tenant": "a"},
        5,
    )
    assert (new.attempt, new.last_event_number) == (0, 1)
    assert not new.HasField("start_by_time")
    assert not new.HasField("error")
    assert await control.get(new.job_id) == new
    (copied,) = await rows(
        control,
        """select s.input, j.credential_id, j.prompt_version, j.credential_mode, j.created_by,
            (select count(*) from job_events e where e.job_id = j.job_id) as events,
            (select count(*) from outbox o where o.aggregate_id = j.job_id and o.attempt = 1
                and o.event_type = 'job.dispatch' and o.stream = j.stream and o.owner = j.owner) as dispatches
        from jobs j join snapshots s using (job_id) where job_id = :job_id""",
        job_id=UUID(new.job_id),
    )
    assert tuple(copied) == (b'{ "items": 3 }', "mine", "v2", "platform_key", "local", 1, 1)
    await end(control, new.job_id, JobState.SUCCEEDED)


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED])
async def test_the_old_job_stays_as_it_is(control: Control, state: JobState) -> None:
    old = await control.create()
    await end(control, old.job_id, state)
    before = await everything_of(control, UUID(old.job_id))

    first = await retry(control, old.job_id)
    second = await retry(control, old.job_id)
    await end(control, first.job.job_id, JobState.FAILED)
    third = await retry(control, first.job.job_id)

    assert await everything_of(control, UUID(old.job_id)) == before
    assert len({each.job.job_id for each in (first, second, third)}) == 3
    assert third.job.origin_job_id == first.job.job_id


async def test_a_cancelled_job_that_never_started_runs_again(control: Control) -> None:
    old = await control.create(run_time=datetime.now(UTC) + timedelta(hours=1))
    await control.stub.CancelJob(pb.CancelJobRequest(job_id=old.job_id))

    new = (await retry(control, old.job_id)).job

    assert new.next_attempt_time.ToDatetime() == new.create_time.ToDatetime()


async def test_the_new_job_has_the_old_ones_document(control: Control) -> None:
    upload = await control.stub.UploadInput(
        iter([pb.UploadInputRequest(header=pb.UploadHeader()), pb.UploadInputRequest(chunk=b"# Tea")])
    )
    old = await control.create("document_import", b'{"upload_id": "%s"}' % upload.upload_id.encode())
    await control.stub.CancelJob(pb.CancelJobRequest(job_id=old.job_id))

    new = (await retry(control, old.job_id)).job

    (row,) = await rows(
        control, "select upload_id from snapshots where job_id = :job_id", job_id=UUID(new.job_id)
    )
    assert str(row.upload_id) == upload.upload_id
    await rows(control, "delete from uploads returning 1")
    assert "its input has expired" in await refusal_of(control, old.job_id)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (JobState.QUEUED, "it has not ended"),
        (JobState.RUNNING, "it has not ended"),
        (JobState.SUCCEEDED, "it succeeded"),
    ],
)
async def test_a_job_in_another_state_is_not_retryable(control: Control, state: JobState, why: str) -> None:
    made = await storage.job_in(control.transactions, state)
    before = await everything_of(control, made)

    assert why in await refusal_of(control, made)
    assert why in await refusal_of(control, made, idempotency_key=KEY)
    assert await everything_of(control, made) == before
    assert await rows(control, "select * from idempotency_keys") == []


async def test_a_job_whose_input_has_expired_is_not_retryable(control: Control) -> None:
    made = await storage.job_in(control.transactions, JobState.FAILED)
    kept = (await retry(control, made, idempotency_key=KEY)).job
    await rows(control, "delete from snapshots where job_id = :job_id returning 1", job_id=made)

    assert "its input has expired" in await refusal_of(control, made)
    replay = await retry(control, made, idempotency_key=KEY)
    assert (replay.job, replay.replayed) == (kept, True)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"job_type": JobType("of_yesterday")}, "its job type is gone"),
        ({"input_schema_version": 7}, "another version of inputs"),
    ],
)
async def test_a_job_that_no_definition_takes_any_more_is_not_retryable(
    control: Control, changes: dict[str, Any], why: str
) -> None:
    made = await storage.a_job(control.transactions, **changes)
    await control.stub.CancelJob(pb.CancelJobRequest(job_id=str(made)))

    assert why in await refusal_of(control, made)


async def test_a_hundred_calls_with_one_key_make_one_job(control: Control) -> None:
    made = await storage.job_in(control.transactions, JobState.FAILED)

    responses = await asyncio.gather(*(retry(control, made, idempotency_key=KEY) for _ in range(100)))

    assert len({each.job.job_id for each in responses}) == 1
    assert sum(not each.replayed for each in responses) == 1
    assert len(await rows(control, "select * from jobs where origin_job_id = :made", made=made)) == 1
    assert len(await rows(control, "select * from outbox where event_type = 'job.dispatch'")) == 1


async def test_a_key_that_stands_for_something_else_is_refused(control: Control) -> None:
    made, other = [await storage.job_in(control.transactions, JobState.FAILED) for _ in range(2)]
    owner = (await control.get(made)).owner
    created = await control.create(owner=owner, idempotency_key="a-creation-1")
    retried = (await retry(control, made, idempotency_key=KEY)).job

    for job_id, key, bound in (
        (other, KEY, retried.job_id),
        (made, "a-creation-1", created.job_id),
    ):
        request = pb.RetryJobRequest(job_id=str(job_id), idempotency_key=key)
        refusal = await refused(control.stub.RetryJob(request))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_KEY_REUSED")
        assert refusal.metadata == {"job_id": bound}
    creation = pb.CreateJobRequest(job_type="synthetic", input=b"{}", owner=owner, idempotency_key=KEY)
    assert (await refused(control.stub.CreateJob(creation))).reason == "IDEMPOTENCY_KEY_REUSED"


async def test_owners_and_admins_retry_and_others_see_no_such_job(guarded_control: Control) -> None:
    control = guarded_control
    made = await storage.a_job(control.transactions, owner=Owner("ada"), created_by="backend")
    lease = await storage.a_lease(control.transactions, job_id=made)
    await storage.end_attempt(control.transactions, lease.ref, ENDS[JobState.FAILED])
    request = pb.RetryJobRequest(job_id=str(made))

    for metadata in (bearing("bob", "jobs.write"), bearing("bob", "jobs.write", "jobs.on_behalf")):
        refusal = await refused(control.stub.RetryJob(request, metadata=metadata))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")
    refusal = await refused(control.stub.RetryJob(request, metadata=bearing("ada", "jobs.read")))
    assert (refusal.code, refusal.metadata) == (grpc.StatusCode.PERMISSION_DENIED, {"scope": "jobs.write"})

    for subject, scopes in (("ada", ["jobs.write"]), ("root", ["jobs.write", "jobs.admin"])):
        new = (await control.stub.RetryJob(request, metadata=bearing(subject, *scopes))).job
        assert new.owner == "ada"
        (row,) = await rows(
            control, "select created_by from jobs where job_id = :job_id", job_id=UUID(new.job_id)
        )
        assert row.created_by == subject


async def test_what_is_malformed_is_refused_by_its_field(control: Control) -> None:
    for request, field in (
        (pb.RetryJobRequest(), "job_id"),
        (pb.RetryJobRequest(job_id="7"), "job_id"),
        (pb.RetryJobRequest(job_id="x" * 1_000), "job_id"),
        (pb.RetryJobRequest(job_id=NO_JOB, idempotency_key=""), "idempotency_key"),
        (pb.RetryJobRequest(job_id=NO_JOB, idempotency_key="short"), "idempotency_key"),
        (pb.RetryJobRequest(job_id=NO_JOB, idempotency_key="k" * 129), "idempotency_key"),
        (pb.RetryJobRequest(job_id=NO_JOB, idempotency_key="with a blank"), "idempotency_key"),
    ):
        refusal = await refused(control.stub.RetryJob(request))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
        assert refusal.fields == [field]
    nobody = str(uuid4())
    refusal = await refused(control.stub.RetryJob(pb.RetryJobRequest(job_id=nobody)))
    assert (refusal.reason, refusal.metadata) == ("JOB_NOT_FOUND", {"job_id": nobody})
