"""Limits of owners where one call makes many jobs, or runs old ones again."""

from __future__ import annotations

import grpc
import pytest

from job_api.client import AsyncClient, JobState, errors
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import batches
from tests.support.control_service import refused
from tests.support.owner_limits import Limited, counted, jobs, keyed, limited_on, refusal, run
from tests.support.selected_jobs import count, rows


@pytest.fixture
def limited(database_url: str, redis_url: str, redis_prefix: str) -> Limited:
    return limited_on(database_url, redis_url, redis_prefix)


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


async def test_a_client_that_retries_many_is_told_the_limit_and_can_go_on_later(limited: Limited) -> None:
    async with limited(active_jobs=2) as control, AsyncClient(control.opened.address) as client:
        for _ in range(3):
            await run(control, (await control.create()).job_id)
        with pytest.raises(errors.TooManyJobs):
            await client.retry_jobs(job_type="synthetic")
        assert await client.retry_jobs(job_type="synthetic", dry_run=True) == 1

        assert await client.cancel_jobs(job_type="synthetic") == 2
        # The two that were cancelled are such jobs now, too, and newer than the one that is left.
        with pytest.raises(errors.TooManyJobs):
            await client.retry_jobs(job_type="synthetic")
        assert await client.cancel_jobs(job_type="synthetic") == 2
        assert await client.retry_jobs(states=[JobState.FAILED]) == 1
