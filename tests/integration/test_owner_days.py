"""The days of owners: who meets there, what they count, and what is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from job_api.loops import retention
from job_api.loops.retention import Retention
from job_api.operations.caller import Caller
from job_api.operations.create_jobs import CreateJobs
from job_api.operations.creating import Creating
from job_api.operations.job_creation import Creation
from job_api.operations.job_request import CreateJobCommand, JobRequests
from job_api.operations.owner_quotas import OwnerLimits, OwnerQuotas
from job_api.operations.retry_batch_items import RetryBatchItems, RetryBatchItemsCommand
from job_worker.projectors.projector import ProjectedJob, ProjectionTransaction
from shared.catalog import catalog as catalogs
from shared.catalog.synthetic import SyntheticInput
from shared.domain.identity import JobType, Owner
from shared.runtime.ids import new_id
from shared.storage import owner_days
from shared.storage.owner_days import OwnerUsage
from shared.storage.transactions import Transaction, Transactions
from shared.streams.wake_ups import WakeUps
from tests.support import batches
from tests.support.blocking import until_blocked
from tests.support.database_time import DatabaseTime
from tests.support.storage import a_job, ending, new_job

ADA, BOB = Owner("ada"), Owner("bob")
WISH = CreateJobCommand(job_type="synthetic", input=b"{}")


def within(**limits: int) -> Creating:
    return Creating(
        new_id=new_id,
        keys_kept_for=timedelta(hours=24),
        wake_dispatcher=asyncio.Event(),
        quotas=OwnerQuotas(OwnerLimits(**limits)),
    )


def creating(transactions: Transactions, **limits: int) -> CreateJobs:
    return CreateJobs(transactions, JobRequests(catalogs.load(()), input_bytes_max=1_000), within(**limits))


async def reserve(transaction: Transaction, owner: Owner, jobs: int = 1) -> OwnerUsage:
    return (await transaction.owner_days.reserve({owner: jobs}, active_max=100))[owner]


async def reserve_alone(transactions: Transactions, owner: Owner) -> OwnerUsage:
    async with transactions.begin() as transaction:
        return await reserve(transaction, owner)


async def days(transactions: Transactions) -> Sequence[Any]:
    async with transactions.begin() as transaction:
        found = await transaction.connection.execute(sa.text("select * from owner_days order by owner, day"))
        return found.all()


async def move_to(transactions: Transactions, database_time: DatabaseTime, hour: int, minute: int) -> None:
    """Move on to this time of a day in the middle of a month."""
    async with transactions.begin() as transaction:
        found = await transaction.connection.execute(sa.text("select engine_time() as now"))
        now: datetime = found.one().now.astimezone(UTC)
    month = now.replace(day=1) + timedelta(days=40)
    await database_time.jump(month.replace(day=10, hour=hour, minute=minute, second=0) - now)


@contextmanager
def statements() -> Iterator[list[str]]:
    """Every statement that any engine of this process runs."""
    seen = list[str]()

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


async def test_without_limits_nothing_of_them_is_read_locked_or_written(transactions: Transactions) -> None:
    with statements() as seen:
        outcomes = await creating(transactions)(Caller(ADA), [WISH] * 3)

    assert all(isinstance(each, Creation) for each in outcomes)
    assert any("insert into jobs" in each for each in seen)
    assert not [each for each in seen if "owner_days" in each]
    assert await days(transactions) == []


async def test_a_caller_at_the_limit_spoils_no_transaction_of_others(transactions: Transactions) -> None:
    create_jobs = creating(transactions, active_jobs=1)
    owners = [ADA if number % 2 else Owner(f"owner-{number}") for number in range(40)]
    with statements() as seen:
        outcomes = await asyncio.gather(*(create_jobs(Caller(each), [WISH]) for each in owners))

    created = [owner for owner, (each,) in zip(owners, outcomes, strict=True) if isinstance(each, Creation)]
    assert sorted(created) == sorted({*owners})
    assert len([each for each in seen if "insert into jobs" in each]) == 1
    assert {(each.owner, each.jobs) for each in await days(transactions)} == {(each, 1) for each in owners}


async def test_creators_for_one_owner_wait_for_each_other_and_see_what_was_created(
    transactions: Transactions,
) -> None:
    async with transactions.begin() as transaction:
        assert (await reserve(transaction, ADA, 3)).day_jobs == 0
        other_owner = await reserve_alone(transactions, BOB)
        waiting = await until_blocked(transactions, reserve_alone(transactions, ADA))
        assert not waiting.done()
    assert other_owner.day_jobs == 0
    assert (await waiting).day_jobs == 3


async def test_who_creates_just_after_midnight_waits_for_who_began_before_it(
    transactions: Transactions, database_time: DatabaseTime
) -> None:
    await move_to(transactions, database_time, 23, 59)
    async with transactions.begin() as transaction:
        before = await reserve(transaction, ADA)
        await database_time.jump(timedelta(seconds=70))
        waiting = await until_blocked(transactions, reserve_alone(transactions, ADA))
        assert not waiting.done()
    after = await waiting

    assert after.day == before.day + timedelta(days=1)
    assert (after.day_jobs, after.month_jobs) == (0, 1)
    assert before.until_next_day <= timedelta(minutes=1)
    assert after.until_next_month > timedelta(days=15)


async def test_a_day_begins_with_the_jobs_that_its_owner_has_created_on_it(
    transactions: Transactions, database_time: DatabaseTime
) -> None:
    await move_to(transactions, database_time, 12, 0)
    for owner in (ADA, ADA, BOB):
        await a_job(transactions, owner=owner)
    await database_time.jump(timedelta(days=1))
    await a_job(transactions, owner=ADA)

    first = await reserve_alone(transactions, ADA)
    assert (first.day_jobs, first.active) == (1, 3)
    second = await reserve_alone(transactions, ADA)
    assert (second.day_jobs, second.month_jobs) == (2, 2)


async def test_jobs_of_a_projector_count_and_are_never_refused(transactions: Transactions) -> None:
    create_jobs = creating(transactions, active_jobs=2, jobs_per_day=2)
    await create_jobs(Caller(ADA), [WISH])
    async with transactions.begin() as transaction:
        inside = ProjectionTransaction(transaction, catalogs.load(()))
        for owner in (ADA, ADA, BOB):
            made_by = ProjectedJob(await a_job(transactions, owner=BOB), owner, JobType("synthetic"), 1)
            inside.create_job(made_by, "synthetic", SyntheticInput(items=1))
        await inside.write()

    assert [(each.owner, each.jobs) for each in await days(transactions)] == [(ADA, 3)]
    (outcome,) = await create_jobs(Caller(ADA), [WISH])
    assert not isinstance(outcome, Creation)
    assert outcome.reason == "QUOTA_EXCEEDED"


async def test_a_projector_and_a_retry_of_items_lock_in_one_order(
    transactions: Transactions, wake_ups: WakeUps
) -> None:
    """Both lock jobs, the owner's day and the batch; the one that comes second waits at the day."""
    batch_id = await batches.a_batch(transactions, 2, owner=ADA)
    await batches.end(transactions, batch_id, {1: batches.FAILURE})
    await batches.start(transactions, batch_id, [2])
    await reserve_alone(transactions, ADA)
    retry = RetryBatchItems(transactions, catalogs.load(()), wake_ups, within(jobs_per_day=10))
    async with transactions.begin() as transaction:
        held = await batches.leases_of(transaction, await batches.jobs_of(transactions, batch_id))
        (lease,) = held.values()
        success = await ending(transaction, lease, batches.SUCCESS)
        await transaction.owner_days.count({ADA: 1})
        asked = retry(Caller(ADA), RetryBatchItemsCommand(batch_id))
        retried = await until_blocked(transactions, asked)
        assert not retried.done()
        assert await transaction.states.end_attempts([success])

    assert (await retried).count == 1
    assert [each.jobs for each in await days(transactions)] == [5]


async def test_days_of_past_months_are_removed_in_bounded_steps(
    transactions: Transactions, database_time: DatabaseTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROWS_PER_STEP_MAX", 2)
    await move_to(transactions, database_time, 12, 0)
    for owner in (ADA, BOB, Owner("eve")):
        await reserve_alone(transactions, owner)
    await database_time.jump(timedelta(days=31))
    assert await Retention(transactions).step() is False
    await reserve_alone(transactions, ADA)
    assert len(await days(transactions)) == 4

    await database_time.jump(timedelta(days=2))
    assert await Retention(transactions).step() is True
    assert await Retention(transactions).step() is False
    assert [each.owner for each in await days(transactions)] == [ADA]


STATEMENTS: dict[str, tuple[sa.TextClause, dict[str, Any], set[str]]] = {
    "what was used": (
        owner_days._USAGE,
        {"owners": ["owner-1"], "day": date(2026, 1, 10), "active_max": 10},
        {"owner_days_pkey", "outbox_first_by_owner", "outbox_later"},
    ),
    "how a day begins": (
        owner_days._BEGIN,
        {"owner": ["owner-1"], "day": [date(2026, 1, 10)]},
        {"owner_days_pkey", "jobs_by_owner"},
    ),
    "old days": (owner_days._REMOVE, {"age": timedelta(days=32), "limit": 10}, {"owner_days_by_day"}),
}


@pytest.mark.parametrize("case", list(STATEMENTS))
async def test_days_and_active_jobs_are_found_by_indexes(transactions: Transactions, case: str) -> None:
    statement, parameters, indexes = STATEMENTS[case]
    async with transactions.begin() as transaction:
        await transaction.creation.create_jobs(
            [new_job(owner=Owner(f"owner-{number % 50}")) for number in range(1_000)]
        )
        fill = "insert into owner_days select 'owner-' || n, '2026-01-10', 1 from generate_series(1, 2000) n"
        await transaction.connection.execute(sa.text(fill))
    async with transactions.begin() as transaction:
        await transaction.connection.execute(sa.text("analyze"))
        explained = await transaction.connection.execute(sa.text(f"explain {statement}"), parameters)
        plan = "\n".join(row[0] for row in explained)
    assert {each for each in indexes if each in plan} == indexes
    assert "Filter: (day" not in plan
    for table in ("jobs", "outbox", "owner_days"):
        assert f"Seq Scan on {table}" not in plan
