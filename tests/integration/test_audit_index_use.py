"""A page of audit records reads few pages of the database, whatever is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from shared.domain.identity import Owner
from shared.storage.audit import AuditFilter, AuditPosition, page_statement
from tests.support.explained import connect, explained
from tests.support.servers import PostgresServer

PAGE = 51
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BUFFERS_MAX = 2 * PAGE + 20
"""A page of the table for each record, and the ways through the indexes."""

# One subject has half of all records, every job three, and a thousand records one moment.
_FILL = """
insert into audit_records (record_time, subject, owner, action, aggregate_id, outcome)
select
    $1::timestamptz + n / 1000 * interval '10 seconds',
    case when n % 2 = 0 then 'backend' else 'subject-' || n % 999 end, 'owner-' || n % 777, 'job.create',
    case when n % 10 > 0 then lpad((n / 3)::text, 32, '0')::uuid end, 'OK'
from generate_series(1, $2::integer) n
"""


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[100_000, pytest.param(1_000_000, marks=pytest.mark.prove)],
    ids=["100,000", "1,000,000"],
)
async def filled(
    postgres_server: PostgresServer, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[asyncpg.Connection, int]]:
    """A connection to so many records."""
    records: int = request.param
    async with postgres_server.migrated_database() as url:
        connection = await connect(url)
        try:
            await connection.execute(_FILL, BEGIN, records, timeout=120)
            await connection.execute("vacuum analyze audit_records", timeout=120)
            yield connection, records
        finally:
            await connection.close()


SUBJECTS = (None, Owner("backend"), Owner("subject-7"), Owner("nobody"))
AGGREGATES = (None, UUID(int=0x33), UUID(int=2**127))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("aggregate_id", AGGREGATES)
@pytest.mark.parametrize("ranged", [False, True])
@pytest.mark.parametrize("continued", [False, True])
async def test_a_page_of_records_is_read_by_an_index_in_its_order(
    filled: tuple[asyncpg.Connection, int],
    subject: Owner | None,
    aggregate_id: UUID | None,
    ranged: bool,
    continued: bool,
) -> None:
    connection, records = filled
    middle = BEGIN + timedelta(seconds=records // 200)
    wanted = AuditFilter(
        subject=subject,
        aggregate_id=aggregate_id,
        recorded_from=middle if ranged else None,
        recorded_to=middle + timedelta(hours=1) if ranged else None,
    )
    after = AuditPosition(middle + timedelta(seconds=30), records // 2) if continued else None
    read = await explained(connection, page_statement(wanted, after=after, limit=PAGE))

    expected = "audit_records_by_subject" if subject else "audit_records_pkey"
    if aggregate_id is not None:
        expected = "audit_records_by_aggregate"
    # Of a subject with half of all records a page is found as soon by going through all of them.
    by_time = {"audit_records_pkey"} if subject == "backend" and aggregate_id is None else set()
    assert read.indexes in ({expected}, by_time)
    assert not read.whole_tables
    assert read.buffers <= BUFFERS_MAX
