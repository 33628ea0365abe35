"""Limits from a deployment's settings, through both services and a real executor."""

from __future__ import annotations

import asyncio

import sqlalchemy as sa

from job_api.loops.outbox_dispatcher import MARK_MIN
from shared.domain.identity import Owner, StreamName
from shared.gen.baton.v1 import execution_service_pb2, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.storage.claim_statement import HOLD_LIMITS
from tests.support.control_service import Control, control_running
from tests.support.execution_service import execution_running
from tests.support.executors import an_executor
from tests.support.limited import most_at_once, spans
from tests.support.storage import STREAM
from verification.peers.executor import SYNTHETIC

INPUT = b'{"duration_seconds": 0.1}'

FREE_STREAM = StreamName("script_generate:script_generate:1.1:2")
BOTH = (STREAM, FREE_STREAM)
FREE = execution_service_pb2.Capability(
    job_type="script_generate", input_schema_versions=[1], output_schema_versions=[1]
)


async def create(control: Control, owner: str, count: int, *, input: bytes = INPUT) -> None:
    for _ in range(count):
        request = pb.CreateJobRequest(job_type="synthetic", input=input, owner=owner)
        await control.stub.CreateJob(request)


async def started(control: Control) -> list[int]:
    """The numbers of the jobs by their creation, in the order in which they have started."""
    statement = sa.text("""
        select number from (
            select start_time, row_number() over (order by create_time, job_id) - 1 as number from jobs
        ) j where start_time is not null order by start_time""")
    async with control.transactions.begin() as transaction:
        return [row.number for row in await transaction.connection.execute(statement)]


async def until_all_succeeded(control: Control, count: int) -> None:
    wanted = pb.ListJobsRequest(filter=pb.JobFilter(states=[job_pb2.JOB_STATE_SUCCEEDED]), page_size=1_000)
    async with asyncio.timeout(30):
        while len((await control.stub.ListJobs(wanted)).jobs) < count:  # noqa: ASYNC110 - many jobs' ends
            await asyncio.sleep(0.05)


async def test_a_deployment_s_limits_hold_for_an_executor_with_room_for_more(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    job_types = {"synthetic": {"at_once": 3, "at_once_per_owner": 2}}
    places = (database_url, redis_url, redis_prefix)
    async with (
        control_running(*places, job_types=job_types) as control,
        execution_running(*places, job_types=job_types) as execution,
    ):
        await create(control, "ada", 8)
        await create(control, "bob", 8)
        async with an_executor(execution.address):
            await until_all_succeeded(control, 16)
        found = await spans(control.transactions)

    assert {owner: len(each) for owner, each in found.items()} == {Owner("ada"): 8, Owner("bob"): 8}
    assert max(most_at_once(each) for each in found.values()) <= 2
    assert most_at_once([span for each in found.values() for span in each]) <= 3


async def test_the_oldest_still_go_first_where_two_dispatchers_hand_out_more_than_a_limit_lets_through(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    count = 60
    places = (database_url, redis_url, redis_prefix)
    job_types = {"synthetic": {"at_once": 1}}
    async with (
        control_running(*places, job_types=job_types) as control,
        control_running(*places, job_types=job_types),
        execution_running(*places, job_types=job_types) as execution,
    ):
        await create(control, "ada", count, input=b"{}")
        async with an_executor(execution.address):
            await until_all_succeeded(control, count)
        order = await started(control)

    assert sorted(order) == list(range(count))
    assert max(abs(place - number) for place, number in enumerate(order)) <= MARK_MIN


async def test_a_claim_that_holds_a_limit_and_does_not_end_holds_up_no_other_type(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    places = (database_url, redis_url, redis_prefix)
    job_types = {"synthetic": {"at_once": 3}}
    async with (
        control_running(*places, job_types=job_types) as control,
        execution_running(*places, job_types=job_types) as execution,
    ):
        executor = await execution.executor(capabilities=[SYNTHETIC, FREE])
        await control.create()
        free = await control.create("script_generate")
        async with asyncio.timeout(10):
            while {each.length for each in (await execution.streams.depths(BOTH)).values()} != {1}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        async with control.transactions.begin() as frozen:
            await frozen.connection.execute(HOLD_LIMITS, {"job_types": ["synthetic"]})
            credits = [execution_service_pb2.Credit(queue=each, count=1) for each in ("drill", FREE.job_type)]
            await executor.send(credits=credits)
            assert (await executor.lease()).job_id == free.job_id
        await executor.leases_when(2)
