"""Calls that change jobs and batches, many at once, while executors work: none of them waits in a circle."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId, Owner
from shared.domain.leases import Heartbeat, LeaseRef
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.storage.attempts import HeldAttempt
from shared.storage.transactions import Transactions
from tests.support import storage
from tests.support.batches import faults_of_batches
from tests.support.control_service import Control, control_running

CALLERS, EXECUTORS = 8, 8
SECONDS = 5.0
PARTS = 10
KEYS = 1_000
"""So few that some are bound already."""
COME_TOO_LATE = frozenset({grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ALREADY_EXISTS})

_WAITING = sa.text("""
select job_id, attempt from jobs j where state in ('QUEUED', 'RUNNING')
    and not exists (select from leases l where l.job_id = j.job_id) order by random() limit 30
""")
_LEASED = sa.text("select job_id, token from leases order by random() limit 30")
_SOME_JOB = sa.text("select job_id from jobs order by state = :state desc, random() limit 1")
"""In that state, if there is one."""
_SOME_BATCH = sa.text("select batch_id from batches order by random() limit 1")
_DEADLOCKS = sa.text("select deadlocks from pg_stat_database where datname = current_database()")
_OWNER = Owner("local")
_LIMITS = {"active_jobs": 1_000_000, "jobs_per_day": 1_000_000}
"""So that all meet at the owner's day, too."""


class Actor:
    """One of many; whatever it wants may have been done by another meanwhile."""

    def __init__(self, control: Control, transactions: Transactions, seed: int) -> None:
        self._control = control
        self._transactions = transactions
        self._draw = random.Random(seed)

    async def call(self, until: float) -> None:
        """Make calls; one that comes too late is refused, and none is told that the database is away."""
        calls: dict[Callable[[], Awaitable[Any]], int] = {
            self._create_batch: 8,
            self._create_jobs: 4,
            self._retry_items: 10,
            self._retry_job: 2,
            self._retry_jobs: 2,
            self._cancel_job: 4,
            self._cancel_jobs: 1,
            self._cancel_batch: 1,
        }
        while asyncio.get_running_loop().time() < until:
            (choice,) = self._draw.choices(list(calls), list(calls.values()))
            call = await choice()
            assert await call.code() in {grpc.StatusCode.OK, *COME_TOO_LATE}, await call.details()

    async def work(self, until: float) -> None:
        """Take leases, keep them up, and end them, some with new jobs out of their results."""
        session = await storage.a_session(self._transactions)
        while asyncio.get_running_loop().time() < until:
            waiting = await self._found(_WAITING)
            requests = [storage.claim_request(session, JobId(job), attempt=n + 1) for job, n in waiting]
            await storage.claim(self._transactions, *requests)
            await self._keep_up()
            await self._end()

    async def _keep_up(self) -> None:
        leases = [LeaseRef(JobId(job), token) for job, token in await self._found(_LEASED)]
        async with self._transactions.begin() as transaction:
            await transaction.leases.extend([Heartbeat(each) for each in leases])
        async with self._transactions.begin() as transaction:
            await transaction.leases.record_cancels_seen(leases)

    async def _end(self) -> None:
        leases = [LeaseRef(JobId(job), token) for job, token in await self._found(_LEASED)]
        async with self._transactions.begin() as transaction:
            held = list((await transaction.attempts.lock(leases)).values())
            if held:
                await transaction.creation.create_jobs([storage.new_job(owner=_OWNER)])
                await transaction.owner_days.count({_OWNER: 1})
            await transaction.states.end_attempts(
                [storage.ending_of(each, self._end_of(each)) for each in held]
            )

    def _end_of(self, held: HeldAttempt) -> AttemptEnd:
        if held.standing.cancel_requested:
            return AttemptEnd(AttemptOutcome.CANCELLED)
        error = self._draw.choice((storage.FINAL, storage.FINAL, storage.RETRYABLE))
        ends = (AttemptEnd(AttemptOutcome.SUCCEEDED), AttemptEnd(AttemptOutcome.FAILED, error))
        return self._draw.choice(ends)

    async def _create_batch(self) -> Any:
        request = pb.CreateBatchRequest(
            job_type="synthetic", inputs=[b"{}"] * 20, idempotency_key=self._key()
        )
        return self._control.stub.CreateBatch(request)

    async def _create_jobs(self) -> Any:
        jobs = [
            pb.CreateJobRequest(job_type="synthetic", input=b"{}", idempotency_key=self._key())
            for _ in range(5)
        ]
        return self._control.stub.CreateJobs(pb.CreateJobsRequest(jobs=jobs))

    async def _retry_items(self) -> Any:
        items = self._draw.choice(([], [self._draw.randint(1, 20)]))
        request = pb.RetryBatchItemsRequest(
            batch_id=await self._one(_SOME_BATCH), items=items, idempotency_key=self._key()
        )
        return self._control.stub.RetryBatchItems(request)

    async def _retry_job(self) -> Any:
        request = pb.RetryJobRequest(job_id=await self._job("FAILED"), idempotency_key=self._key())
        return self._control.stub.RetryJob(request)

    async def _retry_jobs(self) -> Any:
        failed = pb.JobFilter(batch_id=await self._one(_SOME_BATCH), states=[job_pb2.JOB_STATE_FAILED])
        return self._control.stub.RetryJobs(pb.RetryJobsRequest(filter=failed))

    async def _cancel_job(self) -> Any:
        state = self._draw.choice(("QUEUED", "RUNNING"))
        return self._control.stub.CancelJob(pb.CancelJobRequest(job_id=await self._job(state)))

    async def _cancel_jobs(self) -> Any:
        open_ones = pb.JobFilter(labels={"of": self._few()}, states=[job_pb2.JOB_STATE_RUNNING])
        return self._control.stub.CancelJobs(pb.CancelJobsRequest(filter=open_ones))

    async def _cancel_batch(self) -> Any:
        return self._control.stub.CancelBatch(pb.CancelBatchRequest(batch_id=await self._one(_SOME_BATCH)))

    def _few(self) -> str:
        """Names a part of the batches."""
        return str(self._draw.randrange(PARTS))

    def _key(self) -> str:
        return f"key-{self._draw.randrange(KEYS):08}"

    async def _job(self, state: str) -> str:
        return await self._one(_SOME_JOB, state=state)

    async def _one(self, statement: sa.TextClause, **parameters: Any) -> str:
        return str((await self._found(statement, **parameters))[0][0])

    async def _found(self, statement: sa.TextClause, **parameters: Any) -> Sequence[Any]:
        async with self._transactions.begin() as transaction:
            return (await transaction.connection.execute(statement, parameters)).all()


async def deadlocks(control: Control) -> int:
    async with control.transactions.begin() as transaction:
        return int((await transaction.connection.execute(_DEADLOCKS)).scalar_one())


async def test_of_calls_that_meet_none_fails_and_all_counters_are_exact(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with (
        control_running(
            database_url, redis_url, redis_prefix, owner_limits=_LIMITS, database_pool_size=CALLERS + 2
        ) as control,
        storage.opened(database_url, pool_size=CALLERS + EXECUTORS) as transactions,
    ):
        for _ in range(4):
            request = pb.CreateBatchRequest(job_type="synthetic", inputs=[b"{}"] * 20)
            await control.stub.CreateBatch(request)
        until = asyncio.get_running_loop().time() + SECONDS
        async with asyncio.TaskGroup() as group:
            for number in range(CALLERS):
                group.create_task(Actor(control, transactions, number).call(until))
            for number in range(EXECUTORS):
                group.create_task(Actor(control, transactions, CALLERS + number).work(until))

        assert await deadlocks(control) == 0
        assert await faults_of_batches(control.transactions) == []
