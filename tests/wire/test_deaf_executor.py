"""An executor that takes in nothing of what it is sent."""

from __future__ import annotations

from uuid import uuid4

from shared.gen.baton.v1 import execution_service_pb2 as pb
from tests.support.execution_service import Execution, execution_running
from tests.support.service_process import a_worker_process
from verification.peers.executor import SYNTHETIC, ScriptedExecutor

CREDITS = 2
WAITING_JOBS = 1_000
INPUT_BYTES = 60_000
"""Little less than what a lease carries itself."""
GROWTH_BYTES_MAX = 20_000_000


async def test_it_is_charged_no_more_leases_than_its_credits_and_costs_the_service_little_memory(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    servers = (database_url, redis_url, redis_prefix)
    async with (
        execution_running(*servers) as execution,  # makes jobs, and has no executors
        a_worker_process(*servers) as worker,
        ScriptedExecutor.connected(worker.address) as hearing,
        ScriptedExecutor.connected(worker.address) as deaf,
    ):
        await hearing.hello()
        await work_through(execution, hearing, 100)  # it has grown to its size
        before = worker.memory_bytes()

        incarnation_id = str(uuid4())
        hello = pb.Hello(executor_name="deaf", incarnation_id=incarnation_id, capabilities=[SYNTHETIC])
        await deaf.send(hello=hello, credits=[pb.Credit(queue="drill", count=CREDITS)])
        await execution.until_row(
            f"select 1 from executor_sessions where incarnation_id = '{incarnation_id}'"
        )
        await execution.jobs(WAITING_JOBS, input=an_input())
        await execution.until_row("select 1 from leases offset 1")
        # Another executor's leases prove that the feed has looked again and again.
        await work_through(execution, hearing, 100)

        charged = await execution.rows(
            "select job_id from leases where incarnation_id = :id "
            "union all select job_id from attempts where incarnation_id = :id",
            id=incarnation_id,
        )
        assert len(charged) == CREDITS
        assert worker.memory_bytes() - before < GROWTH_BYTES_MAX


async def work_through(execution: Execution, executor: ScriptedExecutor, count: int) -> None:
    """Bring so many jobs to their end, one after the other."""
    for _ in range(count):
        known = len(executor.leases)
        await execution.jobs(1, input=an_input())
        await executor.credit(1)
        [*_, lease] = await executor.leases_when(known + 1)
        await executor.succeed(lease)


def an_input() -> bytes:
    return b'{"items": 1}'.ljust(INPUT_BYTES)
