"""What is counted of limits goes through indexes: of one type, whatever else is leased and delivered."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from shared.domain.leases import TypeLimits
from shared.storage import claim_statement, dispatch_statements, lease_limits
from shared.storage.rows import columns
from shared.storage.state_changes import _claim_row
from shared.storage.transactions import Transactions
from tests.support.dispatching import jobs_of
from tests.support.limited import SYNTHETIC
from tests.support.storage import a_session, claim_request, opened

LEASED, DELIVERED = 20_000, 10_000

_LEASES = sa.text(f"""
insert into leases (job_id, job_type, owner, limited, attempt, token, session_id, incarnation_id,
    executor_name, grant_time, heartbeat_time, reprieve_time, deadline_time, lease_seconds, grace_seconds)
select gen_random_uuid(), 'type-' || n % 40, 'owner-' || n % 500, n % 2 = 0, 1, '1.x', gen_random_uuid(),
    gen_random_uuid(), 'executor', engine_time(), engine_time(), engine_time(), engine_time(), 30, 3
from generate_series(1, {LEASED}) n
""")
_DELIVER = sa.text(f"""
update outbox set state = 'delivered', delivered_time = engine_time() where outbox_id in (
    select outbox_id from outbox where event_type = 'job.dispatch' limit {DELIVERED})
""")


async def much_leased_and_delivered(transactions: Transactions) -> None:
    for number in range(DELIVERED // 1_000 + 2):
        await jobs_of(transactions, f"owner-{number}", 1_000)
    async with transactions.begin() as transaction:
        await transaction.connection.execute(_LEASES)
        await transaction.connection.execute(_DELIVER)
    async with transactions.begin() as transaction:
        await transaction.connection.execute(sa.text("analyze"))


STATEMENTS: dict[str, tuple[sa.TextClause, dict[str, Any], set[str]]] = {
    "which owners may have more leases": (
        dispatch_statements.WAITING_LIMITED,
        {"streams": [], "owners": [], "limited_types": ["synthetic"], "at_once_per_owner": [1]},
        {"leases_limited", "outbox_dispatches_pending"},
    ),
    "what limits leave": (
        lease_limits.USAGE,
        {"job_types": ["synthetic", "type-2"], "per_second": [5.0, None]},
        {"leases_limited", "outbox_dispatches_delivered", "lease_limits_pkey"},
    ),
    "hold limits": (claim_statement.HOLD_LIMITS, {"job_types": ["synthetic"]}, {"lease_limits_pkey"}),
}


@pytest.fixture
async def crowded(database_url: str) -> Any:
    async with opened(database_url) as transactions:
        await much_leased_and_delivered(transactions)
        yield transactions


async def indexes_of(transactions: Transactions, statement: sa.TextClause, parameters: Any) -> str:
    async with transactions.begin() as transaction:
        rows = await transaction.connection.execute(sa.text(f"explain {statement}"), parameters)
        return "\n".join(row[0] for row in rows)


async def test_limits_are_counted_by_their_indexes(crowded: Transactions) -> None:
    for name, (statement, parameters, indexes) in STATEMENTS.items():
        plan = await indexes_of(crowded, statement, parameters)
        for table in ("leases", "outbox", "lease_limits"):
            assert f"Seq Scan on {table}" not in plan, name
        assert {each for each in indexes if f" {each}" in plan} == indexes, name


async def test_a_claim_counts_the_leases_of_its_types_alone(crowded: Transactions) -> None:
    job_ids = await jobs_of(crowded, "newcomer", 50)
    session = await a_session(crowded)
    limits = TypeLimits(SYNTHETIC, at_once=20, at_once_per_owner=2, per_second=30)
    requests = [claim_request(session, each, limits=limits) for each in job_ids]
    rows = [_claim_row(place, each) for place, each in enumerate(requests)]

    parameters = columns(rows, claim_statement.CLAIM_COLUMNS)
    plan = await indexes_of(crowded, claim_statement.CLAIM_WITHIN_LIMITS, parameters)

    assert "on leases_limited" in plan or "using leases_limited" in plan
    assert "using lease_limits_pkey" in plan
    for table in ("leases", "lease_limits", "jobs", "outbox"):
        assert f"Seq Scan on {table}" not in plan
