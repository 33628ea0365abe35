"""A Postgres that hangs: calls are told in time, and everything goes on once it does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import grpc
import pytest
import sqlalchemy as sa
from grpc_health.v1 import health_pb2, health_pb2_grpc

from job_api.client.dialling import TIMEOUT
from shared.domain.jobs import JobState
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.rpc.health import NOT_SERVING, SERVING
from shared.storage.transactions import Transactions
from tests.support import servers
from tests.support.control_service import NO_JOB, Control, control_running, refused
from tests.support.execution_service import execution_running
from verification.stage.freezing import frozen

POOL_SIZE = 4


@pytest.fixture(scope="module")
def postgres_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.PostgresServer]:
    with servers.postgres_running(tmp_path_factory.mktemp("frozen")) as server:
        yield server


def calls_of_all_sorts(control: Control, job_id: str) -> list[Any]:
    stub, seconds = control.stub, TIMEOUT.total_seconds()
    return [
        stub.GetJob(pb.GetJobRequest(job_id=job_id), timeout=seconds),
        stub.ListJobs(pb.ListJobsRequest(), timeout=seconds),
        stub.CancelJob(pb.CancelJobRequest(job_id=NO_JOB), timeout=seconds),
        stub.CreateJob(pb.CreateJobRequest(job_type="synthetic", input=b"{}"), timeout=seconds),
    ]


async def until_status(channel: grpc.aio.Channel, status: int) -> None:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    async with asyncio.timeout(20):
        async for each in stub.Watch(health_pb2.HealthCheckRequest()):
            if each.status == status:
                return


async def until_dispatched(transactions: Transactions, job_id: str) -> None:
    statement = sa.text("select 1 from outbox where aggregate_id = cast(:id as uuid) and state = 'delivered'")
    async with asyncio.timeout(20):
        while True:
            async with transactions.begin() as transaction:
                if (await transaction.connection.execute(statement, {"id": job_id})).first():
                    return
            await asyncio.sleep(0.05)


async def test_while_the_database_hangs_every_call_is_told_to_try_again_before_its_deadline(
    postgres_of_its_own: servers.PostgresServer, redis_url: str, redis_prefix: str
) -> None:
    async with (
        postgres_of_its_own.migrated_database() as url,
        control_running(url, redis_url, redis_prefix, database_pool_size=POOL_SIZE) as control,
        grpc.aio.insecure_channel(control.opened.address) as channel,
    ):
        job = await control.create()
        with frozen(postgres_of_its_own.process_id):
            calls = [call for _ in range(POOL_SIZE) for call in calls_of_all_sorts(control, job.job_id)]
            for refusal in await asyncio.gather(*map(refused, calls)):
                assert refusal.code is grpc.StatusCode.UNAVAILABLE
                assert (refusal.reason, refusal.metadata) == ("PLATFORM_UNAVAILABLE", {"what": "database"})
                assert "google.rpc.RetryInfo" in refusal.details
            await until_status(channel, NOT_SERVING)
        await until_status(channel, SERVING)
        # More than the pool holds: not one connection stayed away. And the loops still run.
        await asyncio.gather(*(control.create() for _ in range(3 * POOL_SIZE)))
        urgent = await control.create(overrides=pb.JobOverrides(priority=0))
        await until_dispatched(control.transactions, urgent.job_id)


async def test_a_lease_outlives_a_database_that_hangs_and_its_report_is_taken(
    postgres_of_its_own: servers.PostgresServer, redis_url: str, redis_prefix: str
) -> None:
    async with (
        postgres_of_its_own.migrated_database() as url,
        execution_running(url, redis_url, redis_prefix) as execution,
        grpc.aio.insecure_channel(execution.address) as channel,
    ):
        executor = await execution.executor(credits=1)
        job_id = await execution.job()
        lease = await executor.lease()
        with frozen(postgres_of_its_own.process_id):
            await until_status(channel, NOT_SERVING)
        await executor.succeed(lease)
        assert (await execution.read(job_id)).state is JobState.SUCCEEDED
        again = await execution.job()
        await executor.credit(1)
        await executor.until(lambda: len(executor.leases) > 1)
        assert executor.leases[-1].job_id == str(again)


def test_the_limits_leave_room_before_the_usual_deadline() -> None:
    from shared.storage import database, transactions  # noqa: PLC0415

    longest = database.POOL_WAIT_SECONDS + database.COMMAND_SECONDS + transactions.RELEASE_SECONDS
    assert timedelta(seconds=longest) < TIMEOUT
    assert database.CONNECT_SECONDS <= database.COMMAND_SECONDS
