"""What an owner may have and create at most, where that is set."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import grpc
import pytest
from pydantic import ValidationError

from job_api.client import AsyncClient, errors
from job_api.settings import OwnerLimitSettings
from shared.domain.identity import JobId
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import storage
from tests.support.control_service import SECRET, Control, bearing, refused
from tests.support.database_time import DatabaseTime
from tests.support.owner_limits import SYNTHETIC, Limited, counted, jobs, keyed, limited_on, refusal, run
from tests.support.selected_jobs import rows


@pytest.fixture
def limited(database_url: str, redis_url: str, redis_prefix: str) -> Limited:
    return limited_on(database_url, redis_url, redis_prefix)


async def the_tenth_at_noon(control: Control) -> DatabaseTime:
    """Move the time to a day that is far from all others that matter."""
    time = DatabaseTime(control.transactions)
    await time.make_movable()
    now = await database_now(control)
    month = now.replace(day=1) + timedelta(days=40)
    await time.jump(month.replace(day=10, hour=12, minute=0, second=0, microsecond=0) - now)
    return time


async def database_now(control: Control) -> datetime:
    now: datetime = (await rows(control, "select engine_time() as now"))[0].now
    return now.astimezone(UTC)


async def test_of_fifty_calls_that_race_exactly_as_many_get_through_as_there_is_room_for(
    limited: Limited,
) -> None:
    async with limited(active_jobs=10) as one, limited(active_jobs=10) as other:
        calls = [(one, other)[number % 2].stub.CreateJob(SYNTHETIC) for number in range(50)]
        answers = await asyncio.gather(*calls, return_exceptions=True)

        created = [each for each in answers if isinstance(each, pb.CreateJobResponse)]
        refusals = [each for each in answers if isinstance(each, grpc.aio.AioRpcError)]
        assert (len(created), len(refusals)) == (10, 40)
        assert {each.code() for each in refusals} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert await jobs(one) == 10
        assert await counted(one) == [10]


async def test_too_many_active_jobs_are_refused_with_the_limit_until_one_ends(limited: Limited) -> None:
    async with limited(active_jobs=2) as control:
        first, second = await control.create(), await control.create()
        told = await refusal(control)

        assert (told.code, told.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_JOBS")
        assert told.metadata == {"limit": "2"}
        (violation,) = told.details["google.rpc.QuotaFailure"].violations
        assert violation.subject == "active_jobs"
        assert "google.rpc.RetryInfo" not in told.details

        await storage.a_lease(control.transactions, job_id=JobId(UUID(first.job_id)))
        assert (await refusal(control)).reason == "TOO_MANY_JOBS"
        await control.stub.CancelJob(pb.CancelJobRequest(job_id=second.job_id))
        await control.create()
        assert (await refusal(control)).reason == "TOO_MANY_JOBS"


async def test_a_day_that_is_used_up_is_refused_until_the_next_one_begins(limited: Limited) -> None:
    async with limited(jobs_per_day=2) as control:
        time = await the_tenth_at_noon(control)
        first, _ = await control.create(), await control.create()
        await run(control, first.job_id)
        told = await refusal(control)

        assert (told.code, told.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
        assert told.metadata == {"quota": "jobs_per_day"}
        assert told.details["google.rpc.QuotaFailure"].violations[0].subject == "jobs_per_day"
        wait = told.details["google.rpc.RetryInfo"].retry_delay.ToTimedelta()
        midnight = datetime.combine((await database_now(control)).date(), datetime.min.time(), UTC)
        left = midnight + timedelta(days=1) - await database_now(control)
        assert left <= wait < left + timedelta(seconds=30)

        await time.jump(wait - timedelta(seconds=30))
        assert (await refusal(control)).reason == "QUOTA_EXCEEDED"
        await time.jump(timedelta(seconds=31))
        await control.create()
        await control.create()
        assert (await refusal(control)).metadata == {"quota": "jobs_per_day"}


async def test_a_month_that_is_used_up_is_refused_until_the_next_one_begins(limited: Limited) -> None:
    async with limited(jobs_per_day=2, jobs_per_month=3) as control:
        time = await the_tenth_at_noon(control)
        await control.create()
        await control.create()
        assert (await refusal(control)).metadata == {"quota": "jobs_per_day"}
        await time.jump(timedelta(days=1))
        await control.create()
        told = await refusal(control)

        assert (told.reason, told.metadata) == ("QUOTA_EXCEEDED", {"quota": "jobs_per_month"})
        wait = told.details["google.rpc.RetryInfo"].retry_delay.ToTimedelta()
        after = await database_now(control) + wait
        assert (after.day, after.hour, after.minute) == (1, 0, 0)

        await time.jump(wait + timedelta(minutes=2))
        await control.create()
        assert await counted(control) == [2, 1, 1]


async def test_a_quota_that_lasts_longer_is_told_rather_than_the_jobs_that_are_active(
    limited: Limited,
) -> None:
    async with limited(active_jobs=1, jobs_per_day=1, jobs_per_month=2) as control:
        await the_tenth_at_noon(control)
        job = await control.create()
        assert (await refusal(control)).metadata == {"quota": "jobs_per_day"}
        await run(control, job.job_id)
        assert (await refusal(control)).metadata == {"quota": "jobs_per_day"}


async def test_replays_are_free(limited: Limited) -> None:
    async with limited(active_jobs=1, jobs_per_day=1) as control:
        first = await control.stub.CreateJob(keyed("order-0001"))
        again = await control.stub.CreateJob(keyed("order-0001"))

        assert (again.job.job_id, again.replayed) == (first.job.job_id, True)
        assert await counted(control) == [1]
        other = pb.CreateJobRequest(job_type="synthetic", input=b'{"items":2}', idempotency_key="order-0001")
        assert (await refusal(control, other)).reason == "IDEMPOTENCY_KEY_REUSED"


async def test_limits_go_by_owner_and_not_by_who_calls(limited: Limited) -> None:
    async with limited(secret=SECRET, active_jobs=1) as control:
        backend = bearing("backend", "jobs.write", "jobs.on_behalf")

        def create(owner: str) -> Any:
            request = pb.CreateJobRequest(job_type="synthetic", input=b"{}", owner=owner)
            return control.stub.CreateJob(request, metadata=backend)

        for owner in ("ada", "bob", ""):
            assert await create(owner)
            assert (await refused(create(owner))).reason == "TOO_MANY_JOBS"
        mixed = pb.CreateJobsRequest(
            jobs=[
                pb.CreateJobRequest(job_type="synthetic", input=b"{}", owner=owner)
                for owner in ("ada", "eve", "bob", "eve")
            ]
        )
        outcomes = (await control.stub.CreateJobs(mixed, metadata=backend)).outcomes
        kinds = [each.WhichOneof("outcome") for each in outcomes]
        assert kinds == ["error", "created", "error", "error"]


async def test_clients_are_told_the_limit_by_its_error(limited: Limited) -> None:
    async with limited(active_jobs=1, jobs_per_month=2) as control, client_of(control) as client:
        job = await client.create_job("synthetic", {})
        with pytest.raises(errors.TooManyJobs) as too_many:
            await client.create_job("synthetic", {})
        assert too_many.value.limit == 1
        await run(control, str(job.job_id))
        await run(control, str((await client.create_job("synthetic", {})).job_id))
        with pytest.raises(errors.QuotaExceeded) as exceeded:
            await client.create_job("synthetic", {})
        assert exceeded.value.quota == "jobs_per_month"
        assert exceeded.value.retry_after > timedelta(0)


def client_of(control: Control) -> AsyncClient:
    return AsyncClient(control.opened.address)


@pytest.mark.parametrize("most", [0, -1, 10**9 + 1])
def test_a_limit_that_can_not_be_counted_is_refused_at_the_start(most: int) -> None:
    for name in OwnerLimitSettings.model_fields:
        with pytest.raises(ValidationError):
            OwnerLimitSettings(**{name: most})
