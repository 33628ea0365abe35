from __future__ import annotations

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from job_api.rpc.job_control_servicer import SERVICE_NAME
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.rpc.health import NOT_SERVING, SERVING
from tests.support import storage
from tests.support.control_service import NO_JOB, control_running, refused
from tests.support.cut_ways import POOL_SIZE, behind_ways


async def next_status(watch: Any) -> int:
    async with asyncio.timeout(20):
        status: int = (await watch.read()).status
    return status


async def test_while_redis_is_away_jobs_are_created_shown_watched_and_cancelled(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with behind_ways(database_url, redis_url, redis_prefix) as (control, _, redis):
        await redis.cut()
        job = await control.create(idempotency_key="a-key-of-this-test")
        assert (await control.create(idempotency_key="a-key-of-this-test")) == job
        assert (await control.get(job.job_id)).state == job_pb2.JOB_STATE_QUEUED
        assert len((await control.stub.ListJobs(pb.ListJobsRequest())).jobs) == 1
        watch = control.watch(job.job_id)
        await control.stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))
        async with asyncio.timeout(20):
            updates = [each.WhichOneof("update") async for each in watch]
        assert updates == ["event", "event", "ended"]

        lease = await storage.a_lease(control.transactions)
        response = await control.stub.CancelJob(pb.CancelJobRequest(job_id=str(lease.ref.job_id)))
        assert response.job.cancellation.HasField("request_time")
        await redis.mend()


async def test_while_the_database_is_away_calls_say_so_and_then_go_on(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with behind_ways(database_url, redis_url, redis_prefix) as (control, database, _):
        stub = control.stub
        job = await control.create()
        await database.cut()
        calls = [
            *(
                stub.CreateJob(pb.CreateJobRequest(job_type="synthetic", input=b"{}"), timeout=5)
                for _ in range(4 * POOL_SIZE)
            ),
            stub.CreateJobs(
                pb.CreateJobsRequest(jobs=[pb.CreateJobRequest(job_type="synthetic", input=b"{}")]), timeout=5
            ),
            stub.GetJob(pb.GetJobRequest(job_id=job.job_id), timeout=5),
            stub.GetJobOutput(pb.GetJobOutputRequest(job_id=job.job_id), timeout=5),
            stub.ListJobs(pb.ListJobsRequest(), timeout=5),
            stub.ListAttempts(pb.ListAttemptsRequest(job_id=job.job_id), timeout=5),
            stub.ListArtifacts(pb.ListArtifactsRequest(job_id=job.job_id), timeout=5),
            stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id), timeout=5),
            stub.WatchJob(pb.WatchJobRequest(job_id=job.job_id), timeout=5),
            stub.UploadInput(iter([pb.UploadInputRequest(header=pb.UploadHeader())]), timeout=5),
        ]
        for refusal in await asyncio.gather(*map(refused, calls)):
            assert refusal.code is grpc.StatusCode.UNAVAILABLE
            assert (refusal.reason, refusal.metadata) == ("PLATFORM_UNAVAILABLE", {"what": "database"})
            assert refusal.details["google.rpc.RetryInfo"].retry_delay.seconds == 1
        assert (await stub.ListJobDefinitions(pb.ListJobDefinitionsRequest())).definitions

        await database.mend()
        assert await control.get(job.job_id) == job
        await asyncio.gather(*(control.create() for _ in range(4 * POOL_SIZE)))


async def test_a_watch_outlives_the_database_and_misses_nothing(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with behind_ways(database_url, redis_url, redis_prefix) as (control, database, _):
        lease = await storage.a_lease(control.transactions)
        watch = control.watch(lease.ref.job_id)
        assert [(await watch.read()).event.number for _ in range(2)] == [1, 2]
        await database.cut()
        end = AttemptEnd(AttemptOutcome.SUCCEEDED)
        await storage.end_attempt(control.transactions, lease.ref, end)
        await database.mend()
        async with asyncio.timeout(20):
            assert (await watch.read()).event.number == 3
            assert (await watch.read()).ended.reason == pb.WATCH_END_REASON_FINISHED


async def test_health_follows_the_database(database_url: str, redis_url: str, redis_prefix: str) -> None:
    async with (
        behind_ways(database_url, redis_url, redis_prefix) as (control, database, redis),
        grpc.aio.insecure_channel(control.opened.address) as channel,
    ):
        health: Any = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE_NAME))
        assert await next_status(watch) == SERVING
        await redis.cut()
        await database.cut()
        assert await next_status(watch) == NOT_SERVING
        await database.mend()
        assert await next_status(watch) == SERVING
        await redis.mend()
        watch.cancel()


async def test_two_hundred_calls_that_are_cancelled_leave_the_pool_whole(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    """A pool of one connection: a single leak would leave every later call without any."""
    async with control_running(database_url, redis_url, redis_prefix, database_pool_size=1) as control:
        job = await control.create()
        calls = list[Any]()
        for number in range(200):
            calls.append(
                [
                    lambda: control.stub.GetJob(pb.GetJobRequest(job_id=job.job_id)),
                    lambda: control.stub.CreateJob(pb.CreateJobRequest(job_type="synthetic", input=b"{}")),
                    lambda: control.stub.ListJobs(pb.ListJobsRequest()),
                    lambda: control.stub.CancelJob(pb.CancelJobRequest(job_id=NO_JOB)),
                ][number % 4]()
            )
        # At different points of their way: some have not reached the service, some are in a statement.
        for number, call in enumerate(calls):
            if number % 10 == 0:
                await control.get(job.job_id)
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        shown = await asyncio.gather(*(control.get(job.job_id) for _ in range(20)))
        assert all(each.job_id == job.job_id for each in shown)
