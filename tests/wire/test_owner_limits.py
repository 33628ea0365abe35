"""What an owner may have and create at most, where that is set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import grpc
import pytest

from job_api.client import AsyncClient, errors
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import batches, storage
from tests.support.control_service import SECRET, Control, Refusal, bearing, control_running, refused
from tests.support.database_time import DatabaseTime
from tests.support.selected_jobs import count, rows

FAILED = AttemptEnd(AttemptOutcome.FAILED, storage.FINAL)
SYNTHETIC = pb.CreateJobRequest(job_type="synthetic", input=b"{}")

Limited = Callable[..., AbstractAsyncContextManager[Control]]


@pytest.fixture
def limited(database_url: str, redis_url: str, redis_prefix: str) -> Limited:
    """A replica with limits; all replicas of a test stand on one database."""

    @asynccontextmanager
    async def running(*, secret: str | None = None, **limits: int) -> AsyncIterator[Control]:
        settings: dict[str, Any] = {"owner_limits": limits, "token_secret": secret}
        async with control_running(database_url, redis_url, redis_prefix, **settings) as control:
            yield control

    return running


def keyed(key: str) -> pb.CreateJobRequest:
    return pb.CreateJobRequest(job_type="synthetic", input=b"{}", idempotency_key=key)


async def refusal(control: Control, request: pb.CreateJobRequest = SYNTHETIC) -> Refusal:
    return await refused(control.stub.CreateJob(request))


async def jobs(control: Control) -> int:
    return int((await rows(control, "select count(*) as n from jobs"))[0].n)


async def counted(control: Control) -> list[int]:
    """What the days of owners say, oldest first."""
    return [each.jobs for each in await rows(control, "select jobs from owner_days order by day, owner")]


async def run(control: Control, job_id: str, end: AttemptEnd = FAILED) -> None:
    lease = await storage.a_lease(control.transactions, job_id=JobId(UUID(job_id)))
    await storage.end_attempt(control.transactions, lease.ref, end)


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


async def test_a_call_for_many_jobs_creates_the_first_ones_that_fit(limited: Limited) -> None:
    async with limited(active_jobs=3) as control:
        request = pb.CreateJobsRequest(jobs=[keyed(f"item-{number:04}") for number in range(5)])
        outcomes = (await control.stub.CreateJobs(request)).outcomes

        assert [each.WhichOneof("outcome") for each in outcomes] == ["created"] * 3 + ["error"] * 2
        again = (await control.stub.CreateJobs(request)).outcomes
        assert [each.created.replayed for each in again[:3]] == [True] * 3
        assert [each.WhichOneof("outcome") for each in again[3:]] == ["error"] * 2

        await run(control, outcomes[0].created.job.job_id)
        later = (await control.stub.CreateJobs(request)).outcomes
        assert [each.WhichOneof("outcome") for each in later] == ["created"] * 4 + ["error"]
        assert [each.created.replayed for each in later[:4]] == [True, True, True, False]
        assert await jobs(control) == 4


async def test_an_item_that_is_refused_leaves_its_key_to_whoever_comes_next(limited: Limited) -> None:
    async with limited(active_jobs=1) as control:
        filler = await control.create()
        twice = pb.CreateJobsRequest(jobs=[keyed("same-key-1"), keyed("same-key-1")])
        outcomes = (await control.stub.CreateJobs(twice)).outcomes
        assert [each.WhichOneof("outcome") for each in outcomes] == ["error", "error"]
        assert await rows(control, "select key from idempotency_keys") == []

        await run(control, filler.job_id)
        outcomes = (await control.stub.CreateJobs(twice)).outcomes
        assert [each.created.replayed for each in outcomes] == [False, True]


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


async def test_a_job_that_runs_again_counts_and_its_replay_does_not(limited: Limited) -> None:
    async with limited(active_jobs=1) as control:
        old = await control.create()
        await run(control, old.job_id)
        request = pb.RetryJobRequest(job_id=old.job_id, idempotency_key="once-more-1")
        filler = await control.create()
        told = await refused(control.stub.RetryJob(request))
        assert (told.code, told.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_JOBS")
        assert "google.rpc.QuotaFailure" in told.details

        await run(control, filler.job_id)
        again = await control.stub.RetryJob(request)
        assert not again.replayed
        assert (await control.stub.RetryJob(request)).job.job_id == again.job.job_id
        assert (await refused(control.stub.RetryJob(pb.RetryJobRequest(job_id=old.job_id)))).reason == (
            "TOO_MANY_JOBS"
        )
        assert await counted(control) == [3]


async def test_retrying_many_stops_before_the_first_job_that_does_not_fit(limited: Limited) -> None:
    failed = pb.JobFilter(job_type="synthetic")
    async with limited(active_jobs=2) as control:
        for _ in range(5):
            await run(control, (await control.create()).job_id)
        first = await control.stub.RetryJobs(pb.RetryJobsRequest(filter=failed))
        assert first.count == 2
        rest = pb.RetryJobsRequest(filter=failed, page_token=first.next_page_token)
        told = await refused(control.stub.RetryJobs(rest))
        assert (told.reason, told.metadata) == ("TOO_MANY_JOBS", {"limit": "2"})
        assert await count(control, "RetryJobs", filter=failed, dry_run=True) == 3

        cancelled = await rows(control, "select job_id from jobs where state = 'QUEUED'")
        for each in cancelled:
            await control.stub.CancelJob(pb.CancelJobRequest(job_id=str(each.job_id)))
        second = await control.stub.RetryJobs(rest)
        assert second.count == 2
        assert await counted(control) == [9]


async def test_a_batch_is_created_whole_or_not_at_all(limited: Limited) -> None:
    async with limited(active_jobs=4, jobs_per_day=9) as control:
        request = pb.CreateBatchRequest(
            job_type="synthetic", inputs=[b"{}"] * 3, idempotency_key="batch-0001"
        )
        first = await control.stub.CreateBatch(request)
        assert (await control.stub.CreateBatch(request)).replayed
        request.idempotency_key = "batch-0002"
        told = await refused(control.stub.CreateBatch(request))

        assert (told.code, told.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_JOBS")
        assert told.metadata == {"limit": "4"}
        assert "google.rpc.QuotaFailure" in told.details
        assert (await jobs(control), await counted(control)) == (3, [3])

        await control.create()
        assert (await refusal(control)).reason == "TOO_MANY_JOBS"
        await control.stub.CancelBatch(pb.CancelBatchRequest(batch_id=first.batch.batch_id))
        assert not (await control.stub.CreateBatch(request)).replayed
        await control.stub.CancelJobs(pb.CancelJobsRequest(filter=pb.JobFilter(job_type="synthetic")))
        request.idempotency_key = "batch-0003"
        assert (await refused(control.stub.CreateBatch(request))).metadata == {"quota": "jobs_per_day"}
        assert await counted(control) == [7]


async def test_failed_items_are_tried_again_all_or_none(limited: Limited) -> None:
    async with limited(active_jobs=3) as control:
        batch_id = await batches.a_batch(control.transactions, 3, owner="local")
        await batches.end(control.transactions, batch_id, dict.fromkeys((1, 2, 3), batches.FAILURE))
        filler = await control.create()
        request = pb.RetryBatchItemsRequest(batch_id=str(batch_id))
        told = await refused(control.stub.RetryBatchItems(request))
        assert (told.code, told.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_JOBS")
        assert await jobs(control) == 4

        some = pb.RetryBatchItemsRequest(batch_id=str(batch_id), items=[1, 3])
        assert (await control.stub.RetryBatchItems(some)).count == 2
        await control.stub.CancelJob(pb.CancelJobRequest(job_id=filler.job_id))
        assert (await control.stub.RetryBatchItems(request)).count == 1
        assert await counted(control) == [7]


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
