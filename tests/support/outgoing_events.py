"""Events for other services, as transactions that change jobs insert them: under a lock on the job."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from job_api.loops.event_numbering import EventNumbering
from shared.domain.identity import JobId
from shared.storage.transactions import Transaction, Transactions

_LOCK = sa.text("select from jobs where job_id = any(cast(:job_ids as uuid[])) order by job_id for update")
# The next one of its job, as the lock makes sure.
_INSERT = sa.text("""
insert into outbox (
    event_type, aggregate_type, aggregate_id, dedupe_key, payload, create_time, available_time)
select
    cast(:event_type as text), 'job', job_id, format('%s:%s:%s', cast(:event_type as text), job_id, n.number),
    jsonb_build_object('number', n.number), engine_time(), engine_time()
from unnest(cast(:job_ids as uuid[])) as job(job_id)
cross join lateral (
    select count(*) + 1 as number from outbox o
    where o.aggregate_id = job.job_id and o.event_type <> 'job.dispatch') n
returning outbox_id
""")
_INSERT_MANY = sa.text("""
insert into outbox (
    event_type, aggregate_type, aggregate_id, dedupe_key, payload, create_time, available_time)
select
    'usage.recorded', 'job', job_id, format('usage.recorded:%s:%s', job_id, number),
    jsonb_build_object('number', number, 'padding', repeat('x', :padding)), engine_time(), engine_time()
from cast(:job_id as uuid) as job_id,
    generate_series(cast(:first as integer), cast(:last as integer)) as number
""")


async def emit(
    transaction: Transaction, job_ids: Sequence[JobId], *, event_type: str = "usage.recorded"
) -> list[int]:
    """Insert the next event of each of these jobs, and return the rows' ids."""
    await transaction.connection.execute(_LOCK, {"job_ids": list(job_ids)})
    parameters = {"job_ids": list(job_ids), "event_type": event_type}
    return [row.outbox_id for row in await transaction.connection.execute(_INSERT, parameters)]


async def emit_many(
    transactions: Transactions, job_id: JobId, first: int, last: int, *, padding: int = 0
) -> None:
    """Let a job emit its events with these numbers, each so many bytes longer."""
    async with transactions.begin() as transaction:
        parameters = {"job_id": job_id, "first": first, "last": last, "padding": padding}
        await transaction.connection.execute(_INSERT_MANY, parameters)


async def emit_and_number(transactions: Transactions, job_id: JobId, *event_types: str) -> None:
    """Let a job emit events one after the other, and number them."""
    for event_type in event_types:
        async with transactions.begin() as transaction:
            await emit(transaction, [job_id], event_type=event_type)
    await number(transactions)


async def number(transactions: Transactions) -> None:
    """Number all that is committed."""
    numbering = EventNumbering(transactions, wake=())
    while await numbering.step():
        pass
