"""Jobs that wait for a limit of their type: who holds it, and what owners are not told of others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shared.domain.identity import Owner
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2 as told
from tests.support import storage
from tests.support.control_service import SECRET, Control, bearing, control_running
from tests.support.execution_service import Execution, execution_running
from verification.peers.executor import success

Servers = tuple[str, str, str]
READER = ("jobs.read",)
ADMIN = ("jobs.read", "jobs.admin")


@pytest.fixture
def servers(database_url: str, redis_url: str, redis_prefix: str) -> Servers:
    return database_url, redis_url, redis_prefix


@asynccontextmanager
async def limited(servers: Servers, **limits: Any) -> AsyncIterator[tuple[Control, Execution]]:
    """Both services, with limits on synthetic work; JobControl asks for tokens."""
    settings: dict[str, Any] = {"job_types": {"synthetic": limits}}
    async with (
        control_running(*servers, token_secret=SECRET, **settings) as control,
        execution_running(*servers, **settings) as execution,
    ):
        yield control, execution


async def explained(control: Control, job_id: object, subject: str, *scopes: str) -> Sequence[Any]:
    request = pb.ExplainJobRequest(job_id=str(job_id))
    response: pb.ExplainJobResponse = await control.stub.ExplainJob(
        request, metadata=bearing(subject, *scopes)
    )
    return response.reasons


async def test_a_limit_of_a_type_is_told_with_the_jobs_that_hold_it(servers: Servers) -> None:
    async with limited(servers, at_once=2) as (control, execution):
        executor = await execution.executor(credits=5)
        holders = [await storage.a_job(control.transactions, owner=Owner(each)) for each in ("ada", "eve")]
        leases = await executor.leases_when(2)
        waiting = await storage.a_job(control.transactions, owner=Owner("ada"))

        (reason,) = await explained(control, waiting, "root", *ADMIN)
        assert reason.cause == told.WAIT_CAUSE_LIMIT
        assert reason.count == 2
        assert reason.sentence == "Its job type has a limit of 2 leases at once, and all are taken."
        assert set(reason.holding_job_ids) == {str(each) for each in holders}

        (reason,) = await explained(control, waiting, "ada", *READER)
        assert (reason.cause, reason.count) == (told.WAIT_CAUSE_LIMIT, 2)
        assert reason.holding_job_ids == [str(holders[0])]

        await executor.report(success(leases[0]))
        assert {each.job_id for each in await executor.leases_when(3)} >= {str(waiting)}
        (reason,) = await explained(control, waiting, "ada", *READER)
        assert reason.cause == told.WAIT_CAUSE_RUNNING


async def test_a_limit_of_an_owner_is_told_with_its_own_jobs_alone(servers: Servers) -> None:
    async with limited(servers, at_once_per_owner=1) as (control, execution):
        executor = await execution.executor(credits=5)
        holder = await storage.a_job(control.transactions, owner=Owner("ada"))
        await storage.a_job(control.transactions, owner=Owner("eve"))
        await executor.leases_when(2)
        waiting = await storage.a_job(control.transactions, owner=Owner("ada"))
        for subject, scopes in (("root", ADMIN), ("ada", READER)):
            (reason,) = await explained(control, waiting, subject, *scopes)
            assert (reason.cause, reason.count) == (told.WAIT_CAUSE_LIMIT, 1)
            assert reason.holding_job_ids == [str(holder)]
            assert reason.sentence == (
                "Each owner may have 1 lease of its job type at once, and its owner has them."
            )


async def test_no_more_than_a_hundred_holders_are_named(servers: Servers) -> None:
    async with limited(servers, at_once=101) as (control, execution):
        executor = await execution.executor(credits=150)
        async with control.transactions.begin() as transaction:
            await transaction.creation.create_jobs([storage.new_job() for _ in range(101)])
        await executor.leases_when(101)
        waiting = await storage.a_job(control.transactions)
        (reason,) = await explained(control, waiting, "root", *ADMIN)
        assert (reason.count, len(set(reason.holding_job_ids))) == (101, 100)


async def test_a_rate_that_is_used_up_is_told_until_when(servers: Servers) -> None:
    async with limited(servers, per_second=0.01) as (control, execution):
        executor = await execution.executor(credits=5)
        await storage.a_job(control.transactions)
        await executor.lease()
        waiting = await storage.a_job(control.transactions)
        (reason,) = await explained(control, waiting, "root", *ADMIN)
        assert reason.cause == told.WAIT_CAUSE_RATE
        assert reason.sentence.startswith(
            "Its job type has a limit of 0.01 leases a second, which is used up until "
        )
        running = await storage.the_job(control.transactions, waiting)
        span = reason.until_time.ToDatetime(tzinfo=running.create_time.tzinfo) - running.create_time
        assert 60 < span.total_seconds() < 101
