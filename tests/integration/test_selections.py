"""Calls about all jobs of a filter read by indexes, and lock in the order of all transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from shared.domain.identity import JobId, JobType, Owner, QueueName
from shared.domain.jobs import JobState
from shared.runtime.ids import new_id
from shared.storage import selections
from shared.storage.database import Connection
from shared.storage.jobs import JobFilter, Position
from shared.storage.reruns import Rerun, Reruns
from shared.storage.selections import Selection, Selections
from shared.storage.transactions import Transactions
from tests.support import storage

BACKLOG = 3_000
SYNTHETIC = JobType("synthetic")
AFTER = Position(datetime(2100, 1, 1, tzinfo=UTC), JobId(new_id()))
FILTERS = {
    "owner": JobFilter(owner=Owner("owner-1")),
    "state": JobFilter(states=frozenset({JobState.QUEUED, JobState.FAILED})),
    "type": JobFilter(job_type=SYNTHETIC),
    "queue": JobFilter(owner=Owner("owner-1"), queue=QueueName("drill")),
    "time": JobFilter(created_from=datetime(2020, 1, 1, tzinfo=UTC), created_to=datetime.now(UTC)),
    "target": JobFilter(target_type="course", target_id="7"),
    "labels": JobFilter(labels={"night": "bad"}),
    "text": JobFilter(text="timeout"),
}


def rerun_of(job_id: JobId) -> Rerun:
    return Rerun(
        origin_job_id=job_id,
        job_id=JobId(new_id()),
        created_by="owner",
        queue=QueueName("drill"),
        stream=storage.STREAM,
        input_schema_version=1,
        output_schema_version=1,
        start_by=timedelta(hours=1),
        traceparent="",
    )


def both(job_filter: JobFilter) -> list[Selection]:
    return [
        selections.cancellable(job_filter, protected=[JobType("stubborn")]),
        selections.retryable(job_filter, takes=[(SYNTHETIC, 1)]),
    ]


class Explain(sa.Executable, sa.ClauseElement):
    """EXPLAIN of a statement, with its parameters."""

    inherit_cache = False

    def __init__(self, statement: sa.ClauseElement) -> None:
        self.statement = statement


@compiles(Explain)
def explain(element: Explain, compiler: Any, **options: Any) -> str:
    return f"explain {compiler.process(element.statement, **options)}"


class Explaining(Connection):
    """Notes the plan of each statement before it runs it."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.plans: list[str] = []

    async def execute(self, statement: Any, parameters: Any = None) -> Any:
        rows = await super().execute(Explain(statement), parameters)
        self.plans.append("\n".join(row[0] for row in rows))
        return await super().execute(statement, parameters)


@pytest.fixture
async def transactions(database_url: str) -> AsyncIterator[Transactions]:
    async with storage.opened(database_url) as opened:
        yield opened


async def cancelled(transactions: Transactions, number: int) -> Sequence[JobId]:
    jobs = [storage.new_job(owner=f"owner-{each % 20}") for each in range(number)]
    async with transactions.begin() as transaction:
        await transaction.creation.create_jobs(jobs)
        await transaction.states.cancel_waiting([each.job_id for each in jobs])
    return [each.job_id for each in jobs]


@pytest.mark.parametrize("name", list(FILTERS))
async def test_a_selection_is_walked_by_the_order_of_an_index(transactions: Transactions, name: str) -> None:
    await cancelled(transactions, BACKLOG)
    async with transactions.begin() as transaction:
        await transaction.connection.execute(sa.text("analyze"))
        explaining = Explaining(transaction.connection._connection)
        walked = Selections(explaining)
        for selection in both(FILTERS[name]):
            await walked.count(selection, after=AFTER, rows=200)
            await walked.lock(selection, after=AFTER, rows=200, limit=50)
    assert len(explaining.plans) == 6
    for plan in explaining.plans:
        for table in ("jobs", "snapshots", "leases", "uploads"):
            assert f"Seq Scan on {table}" not in plan, plan


async def test_jobs_run_again_by_keys_alone(transactions: Transactions) -> None:
    job_ids = (await cancelled(transactions, BACKLOG))[:50]
    async with transactions.begin() as transaction:
        await transaction.connection.execute(sa.text("analyze"))
        explaining = Explaining(transaction.connection._connection)
        await Reruns(explaining).create([rerun_of(each) for each in job_ids], also_again=False)
    (plan,) = explaining.plans
    for table in ("jobs", "snapshots", "uploads", "outbox"):
        assert f"Seq Scan on {table}" not in plan, plan


async def test_a_thousand_jobs_run_again_by_one_statement_and_each_once(transactions: Transactions) -> None:
    job_ids = await cancelled(transactions, 1_000)
    async with transactions.begin() as transaction:
        made = await transaction.reruns.create([rerun_of(each) for each in job_ids], also_again=False)
        again = await transaction.reruns.create([rerun_of(each) for each in job_ids], also_again=False)
        also = await transaction.reruns.create([rerun_of(job_ids[0])], also_again=True)
    assert (len(made), len(again), len(also)) == (1_000, 0, 1)


async def test_walks_that_meet_wait_for_each_other_and_never_in_a_circle(transactions: Transactions) -> None:
    """Half of them go through jobs whose ids are in the opposite order of their times."""
    jobs = sorted((storage.new_job() for _ in range(200)), key=lambda each: each.job_id, reverse=True)
    for first in range(0, 200, 50):
        async with transactions.begin() as transaction:
            await transaction.creation.create_jobs(jobs[first : first + 50])
    cancellable = selections.cancellable(JobFilter(job_type=SYNTHETIC), protected=[])

    async def walk(limit: int) -> int:
        done, after = 0, None
        while True:
            async with transactions.begin() as transaction:
                locked = await transaction.selections.lock(cancellable, after=after, rows=500, limit=limit)
                job_ids = [each.job_id for each in locked.jobs]
                done += len(await transaction.states.cancel_waiting(job_ids))
            after = locked.end
            if after is None:
                return done

    assert sum(await asyncio.gather(*(walk(limit) for limit in (7, 50, 23, 90)))) == 200
