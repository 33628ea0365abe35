"""Batches on a real database, for tests that begin amid a batch's life, and what always holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.batches import Batch, BatchEvent
from shared.domain.identity import BatchId, JobId, JobType, Owner
from shared.domain.leases import LeaseRef
from shared.runtime.ids import new_id
from shared.storage.batch_changes import NewBatch
from shared.storage.transactions import Transaction, Transactions
from tests.support.storage import FINAL, Session, a_session, claim, claim_request, ending, new_job

SUCCESS = AttemptEnd(AttemptOutcome.SUCCEEDED)
FAILURE = AttemptEnd(AttemptOutcome.FAILED, FINAL)

# One statement, so one moment: a batch's counters beside what its items' newest jobs really are.
_COMPARED = sa.text("""
select b.batch_id, b.state, b.size,
    array[b.waiting, b.running, b.succeeded, b.failed, b.skipped] as counted,
    array[
        count(*) filter (where j.state in ('QUEUED', 'RUNNING') and l.job_id is null),
        count(*) filter (where l.job_id is not null),
        count(*) filter (where j.state = 'SUCCEEDED'),
        count(*) filter (where j.state = 'FAILED'),
        count(*) filter (where j.state = 'CANCELLED')] as real,
    (select count(*) from batch_events e where e.batch_id = b.batch_id) as events, b.event_count,
    (select count(*) from outbox o where o.aggregate_id = b.batch_id and o.event_type = 'batch.finished')
        as told, b.settlings
from batches b join batch_items i using (batch_id) join jobs j on j.job_id = i.job_id
left join leases l on l.job_id = j.job_id
group by b.batch_id
""")


async def faults_of_batches(transactions: Transactions) -> list[str]:
    """Say which batches' counters are not what their items are, at one moment."""
    async with transactions.begin() as transaction:
        rows = list(await transaction.connection.execute(_COMPARED))
    return [fault for row in rows for fault in _faults(row)]


def _faults(row: Any) -> list[str]:
    is_open = row.state in ("QUEUED", "RUNNING")
    checks = {
        f"counters {row.counted}, items {row.real}": row.counted == row.real,
        f"{row.counted} do not add up to {row.size}": sum(row.counted) == row.size,
        f"{row.events} events, numbered up to {row.event_count}": row.events == row.event_count,
        f"{row.settlings} settlings, told {row.told} times": row.settlings == row.told,
        f"it is {row.state} with {row.counted}": is_open == (sum(row.counted[:2]) > 0),
    }
    return [f"batch {row.batch_id}: {fault}" for fault, holds in checks.items() if not holds]


async def a_batch(
    transactions: Transactions, size: int, *, owner: str = "owner", title: str = "", **changes: Any
) -> BatchId:
    """Create a QUEUED batch."""
    batch_id = BatchId(new_id())
    jobs = [
        replace(new_job(owner=Owner(owner), **changes), batch_id=batch_id, batch_item=number)
        for number in range(1, size + 1)
    ]
    batch = NewBatch(
        batch_id=batch_id,
        owner=Owner(owner),
        created_by=owner,
        job_type=JobType("synthetic"),
        title=title,
        target=None,
        labels={},
        job_ids=[each.job_id for each in jobs],
    )
    async with transactions.begin() as transaction:
        for place in range(0, size, 1_000):
            await transaction.creation.create_jobs(jobs[place : place + 1_000])
        await transaction.batch_changes.create(batch)
    return batch_id


async def the_batch(transactions: Transactions, batch_id: BatchId) -> Batch:
    """Read a batch that exists."""
    async with transactions.begin() as transaction:
        batch = await transaction.batches.get(batch_id)
    assert batch is not None
    return batch


async def jobs_of(transactions: Transactions, batch_id: BatchId) -> list[JobId]:
    """Return the newest job of each item, by number."""
    statement = sa.text("select job_id from batch_items where batch_id = :batch_id order by number")
    async with transactions.begin() as transaction:
        rows = await transaction.connection.execute(statement, {"batch_id": batch_id})
        return [JobId(row.job_id) for row in rows]


async def events_of(transactions: Transactions, batch_id: BatchId) -> list[BatchEvent]:
    """Return all events of a batch, whose numbers have no gaps."""
    async with transactions.begin() as transaction:
        events = await transaction.batches.events_after({batch_id: 0}, limit=100_000)
    assert [each.number for each in events] == list(range(1, len(events) + 1))
    return events


async def leases_of(transaction: Transaction, jobs: Sequence[JobId]) -> dict[JobId, LeaseRef]:
    """Return the leases of those of the jobs that have one."""
    statement = sa.text("select job_id, token from leases where job_id = any(cast(:jobs as uuid[]))")
    rows = await transaction.connection.execute(statement, {"jobs": list(jobs)})
    return {JobId(row.job_id): LeaseRef(row.job_id, row.token) for row in rows}


async def start(
    transactions: Transactions, batch_id: BatchId, items: Sequence[int], *, attempt: int = 1
) -> Session:
    """Lease items in one statement."""
    session = await a_session(transactions)
    jobs = await jobs_of(transactions, batch_id)
    requests = [claim_request(session, jobs[item - 1], attempt=attempt) for item in items]
    assert len(await claim(transactions, *requests)) == len(items)
    return session


async def end(
    transactions: Transactions, batch_id: BatchId, ends: dict[int, AttemptEnd], *, attempt: int = 1
) -> None:
    """Lease items and end them, in one statement each; one that is leased already only ends."""
    jobs = await jobs_of(transactions, batch_id)
    async with transactions.begin() as transaction:
        held = await leases_of(transaction, [jobs[item - 1] for item in ends])
    waiting = [item for item in ends if jobs[item - 1] not in held]
    if waiting:
        await start(transactions, batch_id, waiting, attempt=attempt)
    async with transactions.begin() as transaction:
        held = await leases_of(transaction, [jobs[item - 1] for item in ends])
        endings = [await ending(transaction, held[jobs[item - 1]], each) for item, each in ends.items()]
        assert len(await transaction.states.end_attempts(endings)) == len(ends)


async def everything_about_batches(transactions: Transactions) -> dict[str, list[Any]]:
    """All rows that a call about batches may write, to see that nothing changed."""
    tables = ("batches", "batch_items", "batch_events", "jobs", "job_events", "outbox", "audit_records")
    async with transactions.begin() as transaction:
        return {
            table: sorted(map(str, await transaction.connection.execute(sa.text(f"select * from {table}"))))
            for table in tables
        }
