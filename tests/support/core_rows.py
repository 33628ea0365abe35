"""Every row that the database has about each job, read at one moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from shared.domain.identity import JobId
from shared.storage.transactions import Transactions
from verification.evidence.tables import JobRows

# One statement has one snapshot, so that rows of one change are never seen apart.
_READ = sa.text("""
select 'jobs' as place, job_id, to_jsonb(t)::text as body, 0 as number from jobs t
union all select 'snapshots', job_id, to_jsonb(t)::text, 0 from snapshots t
union all select 'leases', job_id, to_jsonb(t)::text, 0 from leases t
union all select 'attempts', job_id, to_jsonb(t)::text, attempt from attempts t
union all select 'events', job_id, to_jsonb(t)::text, number from job_events t
union all select 'artifacts', job_id, to_jsonb(t)::text, ordinal from artifacts t
union all select 'keys', job_id, to_jsonb(t)::text, 0 from idempotency_keys t
union all select case event_type when 'job.dispatch' then 'dispatches' else 'outgoing' end,
    aggregate_id, to_jsonb(t)::text, outbox_id from outbox t
order by 4
""")

_EMPTY = sa.text("""
truncate jobs, snapshots, leases, attempts, job_events, artifacts, idempotency_keys, outbox, executor_sessions
""")


async def read_all(transactions: Transactions) -> Mapping[JobId, JobRows]:
    """Read everything, first to last where rows are numbered."""
    found: dict[JobId, JobRows] = {}
    async with transactions.begin() as transaction:
        for row in await transaction.connection.execute(_READ):
            rows = found.setdefault(JobId(row.job_id), JobRows())
            getattr(rows, row.place).append(json.loads(row.body))
    return found


async def empty(transactions: Transactions) -> None:
    """Delete all jobs and sessions."""
    async with transactions.begin() as transaction:
        await transaction.connection.execute(_EMPTY)


def time_of(value: str | None) -> datetime | None:
    """Read a point in time out of a row."""
    return None if value is None else datetime.fromisoformat(value)


def id_of(value: str) -> UUID:
    return UUID(value)
