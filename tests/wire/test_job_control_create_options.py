"""What is said about a new job beside its input: it counts for the key, reaches the executor, is kept to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from job_api.loops.retention import Retention
from job_api.loops.start_by_sweep import StartBySweep
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.leases import Lease
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.streams.connection import open_redis
from shared.streams.wake_ups import WakeUps
from tests.support import storage
from tests.support.control_service import Control, refused
from tests.support.database_time import DatabaseTime

KEY = "order-4711"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SUCCEEDED = AttemptEnd(AttemptOutcome.SUCCEEDED)


@pytest.fixture
async def database_time(control: Control) -> DatabaseTime:
    database_time = DatabaseTime(control.transactions)
    await database_time.make_movable()
    return database_time


def in_hours(hours: float) -> Timestamp:
    moment = Timestamp()
    moment.FromDatetime(datetime.now(UTC) + hours * HOUR)
    return moment


async def claimed(control: Control, job: job_pb2.Job) -> Sequence[Lease]:
    """Ask for the job as a worker does; empty if it may not start."""
    session = await storage.a_session(control.transactions)
    return await storage.claim(control.transactions, storage.claim_request(session, JobId(UUID(job.job_id))))


async def test_a_job_with_a_run_time_does_not_start_before_it(
    control: Control, database_time: DatabaseTime
) -> None:
    job = await control.create(run_time=in_hours(1))
    await database_time.jump(0.9 * HOUR)
    assert not await claimed(control, job)
    await database_time.jump(0.2 * HOUR)
    assert await claimed(control, job)


async def test_a_run_time_that_has_passed_is_as_good_as_none(control: Control) -> None:
    assert await claimed(control, await control.create(run_time=in_hours(-1)))


async def test_a_job_that_did_not_start_by_its_time_is_cancelled_and_says_why(
    control: Control, database_time: DatabaseTime, redis_url: str, redis_prefix: str
) -> None:
    late, begun = [await control.create(start_by_time=in_hours(1)) for _ in range(2)]
    assert await claimed(control, begun)
    await database_time.jump(1.1 * HOUR)
    assert not await claimed(control, late)
    async with open_redis(redis_url) as redis:
        await StartBySweep(control.transactions, WakeUps(redis, prefix=redis_prefix)).step()
    shown = await control.get(late.job_id)
    assert shown.state == job_pb2.JOB_STATE_CANCELLED
    assert shown.finish_time.ToDatetime() > late.start_by_time.ToDatetime()
    told = await control.stub.ListJobs(pb.ListJobsRequest(filter=pb.JobFilter(text="start_by_passed")))
    assert [each.job_id for each in told.jobs] == [late.job_id]
    assert (await control.get(begun.job_id)).state == job_pb2.JOB_STATE_RUNNING


async def test_overrides_and_input_reach_the_executor(control: Control) -> None:
    overrides = pb.JobOverrides(
        priority=3,
        credential_mode=job_pb2.CREDENTIAL_MODE_PLATFORM_KEY,
        credential_id="c1",
        prompt_version="v7",
        output_schema_version=1,
    )
    job = await control.create(input=b'{"items": 2}', overrides=overrides)
    (lease,) = await claimed(control, job)
    assert (lease.priority, lease.credential_mode, lease.credential_id) == (3, "platform_key", "c1")
    assert (lease.prompt_version, lease.output_schema_version, lease.input) == ("v7", 1, b'{"items": 2}')


@pytest.mark.parametrize("version", [2, 2**32 - 1])
async def test_an_output_schema_version_that_the_definition_does_not_give_is_refused(
    control: Control, version: int
) -> None:
    overrides = pb.JobOverrides(output_schema_version=version)
    wish = pb.CreateJobRequest(job_type="synthetic", input=b"{}", overrides=overrides)
    refusal = await refused(control.stub.CreateJob(wish))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
    assert refusal.fields == ["overrides.output_schema_version"]


@pytest.mark.parametrize(
    "told",
    [
        {"start_by_time": Timestamp(seconds=2_000_000_000)},
        {"run_time": Timestamp(seconds=2_000_000_000)},
        {"labels": {"a": "c"}},
        {"target": job_pb2.Target(type="t", id="j")},
        *(
            {"overrides": overrides}
            for overrides in (
                pb.JobOverrides(priority=0),
                pb.JobOverrides(credential_mode=job_pb2.CREDENTIAL_MODE_PLATFORM_KEY),
                pb.JobOverrides(credential_id="c1"),
                pb.JobOverrides(prompt_version="v7"),
                pb.JobOverrides(output_schema_version=1),
            )
        ),
    ],
    ids=lambda told: " ".join(str(told).split()),
)
async def test_all_that_was_sent_counts_for_the_key_also_where_it_says_what_holds_anyway(
    control: Control, told: dict[str, Any]
) -> None:
    await control.create(idempotency_key=KEY)
    wish = pb.CreateJobRequest(job_type="synthetic", input=b"{}", idempotency_key=KEY, **told)
    assert (await refused(control.stub.CreateJob(wish))).reason == "IDEMPOTENCY_KEY_REUSED"
    wish.idempotency_key = "another-key"
    first = await control.stub.CreateJob(wish)
    again = await control.stub.CreateJob(wish)
    assert (first.replayed, again.replayed, again.job.job_id) == (False, True, first.job.job_id)


async def test_a_key_is_free_again_after_its_time_and_the_end_of_its_job(
    control: Control, database_time: DatabaseTime
) -> None:
    wish = pb.CreateJobRequest(job_type="synthetic", input=b"{}", idempotency_key=KEY)
    other = pb.CreateJobRequest(job_type="synthetic", input=b'{"items": 2}', idempotency_key=KEY)
    first = await control.stub.CreateJob(wish)
    retention = Retention(control.transactions)

    await database_time.jump(DAY + HOUR)
    await retention.step()
    assert (await control.stub.CreateJob(wish)).job.job_id == first.job.job_id  # its job waits still

    (lease,) = await claimed(control, first.job)
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
    await retention.step()
    second = await control.stub.CreateJob(other)
    assert not second.replayed

    await database_time.jump(DAY - HOUR)
    await retention.step()
    assert (await control.stub.CreateJob(other)).replayed
    assert (await refused(control.stub.CreateJob(wish))).metadata == {"job_id": second.job.job_id}
    assert (await control.get(first.job.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
