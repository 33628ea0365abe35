"""How many jobs go before one is counted as the dispatcher would let them go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from shared.domain.identity import JobId, Owner, StreamName
from shared.domain.queues import more_urgent
from shared.storage.jobs_ahead import AHEAD_MAX, PLACES_MAX, Ahead
from shared.storage.transactions import Transactions
from tests.support.storage import STREAM, new_job, opened

URGENT = StreamName("drill:synthetic:1.1:0")
OTHER_VERSIONS = StreamName("drill:synthetic:2.1:0")


async def created(transactions: Transactions, *owners: str, **fields: Any) -> list[JobId]:
    """Create a job for each owner named, one after the other."""
    jobs = [new_job(owner=Owner(each), **fields) for each in owners]
    for job in jobs:
        async with transactions.begin() as transaction:
            await transaction.creation.create_jobs([job])
    return [each.job_id for each in jobs]


async def ahead(transactions: Transactions, job_id: JobId) -> int:
    """Count all jobs that go before one."""
    found = await counted(transactions, job_id)
    assert not found.more
    return found.count


async def counted(transactions: Transactions, job_id: JobId) -> Ahead:
    async with transactions.begin() as transaction:
        standing = await transaction.explanations.standing(job_id)
        assert standing.dispatch is not None
        return await transaction.jobs_ahead.count(standing, standing.dispatch, more_urgent(standing.stream))


async def deliver(transactions: Transactions, job_ids: list[JobId]) -> None:
    """Mark dispatches as delivered, one after the other."""
    statement = """
        update outbox set state = 'delivered', delivered_time = engine_time() where aggregate_id = :job_id"""
    for each in job_ids:
        async with transactions.begin() as transaction:
            await transaction.connection.execute(sa.text(statement), {"job_id": each})


async def test_the_only_job_is_behind_nobody(database_url: str) -> None:
    async with opened(database_url) as transactions:
        (alone,) = await created(transactions, "ada")
        assert await ahead(transactions, alone) == 0


async def test_of_its_owner_what_is_more_urgent_or_older_goes_first(database_url: str) -> None:
    async with opened(database_url) as transactions:
        await created(transactions, "ada", "ada")
        await created(transactions, "ada", priority=45)
        (job,) = await created(transactions, "ada")
        await created(transactions, "ada", priority=45)
        await created(transactions, "ada", "ada")
        await created(transactions, "ada", priority=60)
        assert await ahead(transactions, job) == 4


async def test_of_each_other_owner_as_many_go_first_as_have_their_turns_before(database_url: str) -> None:
    async with opened(database_url) as transactions:
        await created(transactions, *["eve"] * 50, "bob")
        first, second = await created(transactions, "ada", "ada")
        await created(transactions, *["zoe"] * 5)
        assert await ahead(transactions, first) == 3
        assert await ahead(transactions, second) == 1 + 2 + 1 + 2


async def test_what_is_not_due_goes_after_it_however_urgent(database_url: str) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    async with opened(database_url) as transactions:
        await created(transactions, "ada", "eve", "eve", priority=40, run_time=tomorrow)
        await created(transactions, "eve", priority=60)
        (job,) = await created(transactions, "ada")
        assert await ahead(transactions, job) == 1


async def test_more_urgent_streams_of_the_same_kind_go_first_and_no_others(database_url: str) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    async with opened(database_url) as transactions:
        urgent = await created(transactions, "eve", "eve", "bob", stream=URGENT, priority=5)
        await created(transactions, "eve", stream=URGENT, priority=5, run_time=tomorrow)
        await created(transactions, "eve", stream=OTHER_VERSIONS, priority=5)
        (job,) = await created(transactions, "ada", stream=STREAM)
        assert await ahead(transactions, job) == 3
        await deliver(transactions, urgent[:1])
        assert await ahead(transactions, job) == 3
        await deliver(transactions, [job])
        assert await ahead(transactions, job) == 3
        assert await ahead(transactions, urgent[2]) == 2


async def test_what_has_been_handed_out_goes_first_and_in_its_order(database_url: str) -> None:
    async with opened(database_url) as transactions:
        handed_out = await created(transactions, "eve", "ada", "eve")
        (job,) = await created(transactions, "ada")
        await deliver(transactions, handed_out)
        assert await ahead(transactions, job) == 3
        assert [await ahead(transactions, each) for each in handed_out] == [0, 1, 2]
        await created(transactions, "bob")
        assert await ahead(transactions, job) == 4


async def test_no_more_are_counted_than_the_bound(database_url: str) -> None:
    async with opened(database_url) as transactions:
        jobs = [new_job(owner=Owner(f"owner-{number % 7}")) for number in range(AHEAD_MAX + 500)]
        async with transactions.begin() as transaction:
            await transaction.creation.create_jobs(jobs)
        (job,) = await created(transactions, "owner-3")
        assert await counted(transactions, job) == Ahead(AHEAD_MAX, more=True)
        assert await ahead(transactions, jobs[3].job_id) == 6


async def test_of_more_owners_than_are_looked_at_some_are_counted(database_url: str) -> None:
    async with opened(database_url) as transactions:
        jobs = [new_job(owner=Owner(f"owner-{number:05}")) for number in range(PLACES_MAX + 10)]
        async with transactions.begin() as transaction:
            await transaction.creation.create_jobs(jobs)
        found = await counted(transactions, jobs[5].job_id)
        assert found.more
        assert PLACES_MAX - 2 < found.count <= PLACES_MAX
