"""Hot statements go through their indexes, so that the backlog's size does not matter to them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.runtime.ids import new_id
from shared.storage import (
    attempts,
    claim_statement,
    dispatch_statements,
    dispatches,
    events,
    executors,
    explanations,
    jobs,
    jobs_ahead,
    outbox_messages,
    queue_figures,
)
from shared.storage.executors import FIRST_PLACE
from shared.storage.transactions import Transaction, Transactions
from tests.support.explained import connect, explained
from tests.support.storage import STREAM, a_session, claim, claim_request, ending, new_job, opened

BACKLOG = 3_000


async def a_backlog(transactions: Transactions) -> Sequence[Any]:
    jobs = [new_job(owner=f"owner-{number % 20}") for number in range(BACKLOG)]
    async with transactions.begin() as transaction:
        await transaction.creation.create_jobs(jobs)
    async with transactions.begin() as transaction:
        await transaction.connection.execute(sa.text("analyze"))
    return [job.job_id for job in jobs]


async def plan(transaction: Transaction, statement: sa.Executable, parameters: dict[str, Any]) -> str:
    explained = sa.text(f"explain {statement}")
    rows = await transaction.connection.execute(explained, parameters)
    return "\n".join(row[0] for row in rows)


WANTED = {"streams": [STREAM] * 3, "owners": ["owner-1", "owner-2", "owner-3"], "rooms": [8, 8, 8]}
CASES: dict[str, tuple[sa.TextClause, dict[str, Any]]] = {
    "which streams and owners wait": (dispatch_statements.WAITING, {"streams": [], "owners": []}),
    "lock due dispatches": (dispatch_statements.LOCK_DUE, WANTED),
    "lock due dispatches within limits": (
        dispatch_statements.LOCK_DUE_LIMITED,
        {**WANTED, "job_types": ["synthetic"] * 3, "type_rooms": [8, 8, 8], "owner_rooms": [1, 1, 1]},
    ),
    "which streams are unclaimed": (dispatches._UNCLAIMED, {"age": None}),
}


@pytest.mark.parametrize("case", list(CASES))
async def test_the_dispatcher_never_reads_the_whole_backlog(database_url: str, case: str) -> None:
    statement, parameters = CASES[case]
    async with opened(database_url) as transactions:
        await a_backlog(transactions)
        async with transactions.begin() as transaction:
            assert "Seq Scan on outbox" not in await plan(transaction, statement, parameters)


@pytest.mark.parametrize(
    "statement", [dispatch_statements.WAITING, dispatch_statements.WAITING_LIMITED], ids=["free", "limited"]
)
async def test_the_next_owner_is_found_behind_a_long_backlog_without_reading_it(
    database_url: str, statement: sa.TextClause
) -> None:
    limits = {"limited_types": ["synthetic"], "at_once_per_owner": [1]}
    async with opened(database_url) as transactions:
        await a_backlog(transactions)
        connection = await connect(database_url)
        read = []
        for served in ("", "owner-19", "owner-9"):  # the last one by name
            bound = statement.bindparams(streams=[STREAM], owners=[served])
            if statement is dispatch_statements.WAITING_LIMITED:
                bound = bound.bindparams(**limits)
            read.append((await explained(connection, bound)).buffers)
        await connection.close()
        assert max(read) < 2 * read[0], read


async def test_a_claim_goes_by_keys_alone(database_url: str) -> None:
    async with opened(database_url) as transactions:
        job_ids = (await a_backlog(transactions))[:50]
        session = await a_session(transactions)
        parameters: dict[str, list[Any]] = {
            "place": list(range(50)),
            "job_id": list(job_ids),
            "attempt": [1] * 50,
            "token": [f"1.{number}" for number in range(50)],
            "session_id": [session.session_id] * 50,
            "incarnation_id": [session.incarnation_id] * 50,
            "executor_name": ["executor"] * 50,
            "lease_seconds": [30.0] * 50,
            "timeout_seconds": [60.0] * 50,
            "grace_seconds": [3.0] * 50,
            "at_once": [20] * 50,
            "at_once_per_owner": [2] * 50,
            "per_second": [30.0] * 50,
        }
        async with transactions.begin() as transaction:
            text = await plan(transaction, claim_statement.CLAIM, parameters)
        for table in ("jobs", "outbox", "snapshots"):
            assert f"Seq Scan on {table}" not in text


async def test_a_claim_and_an_end_rewrite_jobs_on_their_own_pages(database_url: str) -> None:
    """So no index of jobs is written again, and what is dead is cleared away by whoever looks next."""
    written = sa.text("""
        select pg_stat_get_xact_tuples_updated('jobs'::regclass) as rows,
            pg_stat_get_xact_tuples_hot_updated('jobs'::regclass) as on_their_pages""")
    async with opened(database_url, pool_size=1) as transactions:
        job_ids = (await a_backlog(transactions))[:50]
        session = await a_session(transactions)
        leases = await claim(transactions, *(claim_request(session, each) for each in job_ids))
        success = AttemptEnd(AttemptOutcome.SUCCEEDED)
        async with transactions.begin() as transaction:
            ends = [await ending(transaction, each.ref, success) for each in leases]
            await transaction.states.end_attempts(ends)
            # Counted since the connection last told the server's statistics, which takes it a second.
            counts = (await transaction.connection.execute(written)).one()
    assert counts.rows >= 50
    assert counts.on_their_pages == counts.rows


async def test_watchers_read_events_by_key(database_url: str) -> None:
    async with opened(database_url) as transactions:
        job_ids = (await a_backlog(transactions))[:50]
        parameters = {"job_ids": job_ids, "numbers": [0] * 50, "limit": 100}
        async with transactions.begin() as transaction:
            assert "Seq Scan on job_events" not in await plan(transaction, events._AFTER, parameters)


async def test_a_job_is_shown_by_keys_alone(database_url: str) -> None:
    async with opened(database_url) as transactions:
        parameters = {"job_id": (await a_backlog(transactions))[7], "limit": 100}
        async with transactions.begin() as transaction:
            text = await plan(transaction, attempts._HISTORY, parameters)
    for table in ("jobs", "attempts", "leases"):
        assert f"Seq Scan on {table}" not in text


async def test_live_views_find_what_was_created_by_its_time(database_url: str) -> None:
    async with opened(database_url) as transactions:
        job_ids = await a_backlog(transactions)
        async with transactions.begin() as transaction:
            middle = (await transaction.jobs.get_many(job_ids))[job_ids[-50]]
    connection = await connect(database_url)
    try:
        place = jobs.Position(middle.create_time, middle.job_id)
        found = await explained(connection, jobs.created_behind(place, limit=1_000))
    finally:
        await connection.close()
    assert found.indexes == {"jobs_by_create_time"}
    assert found.buffers < found.rows + 50  # jobs of one moment have no order that is known


AHEAD = {"stream": STREAM, "urgent": [STREAM] * 2, "outbox_id": 1_000}
OPERATORS: dict[str, tuple[sa.TextClause, dict[str, Any], str]] = {
    "dead messages": (outbox_messages._DEAD, {"after": 0, "limit": 50}, "outbox_dead"),
    "other messages": (
        outbox_messages._OTHERS,
        {"after": 0, "limit": 50, "state": "delivered"},
        "outbox_pkey",
    ),
    "dead messages sent again": (
        outbox_messages._RESEND,
        {"outbox_ids": None, "limit": 50},
        "outbox_dead",
    ),
    "what waits": (queue_figures._WAITING, {}, "Index Only Scan using outbox_dispatches_pending"),
    "what runs": (queue_figures._RUNNING, {}, "jobs_pkey"),
    "what finished lately": (queue_figures._FINISHED, {}, "outbox_events_by_"),
    "where a job stands": (explanations._STANDING, {"job_id": new_id()}, "jobs_pkey"),
    "what limits a job": (
        explanations._LIMITS,
        {"job_type": "synthetic", "owner": "owner-1", "per_second": None},
        "leases_limited",
    ),
    "what goes before a job that waits": (
        jobs_ahead._BEFORE_PENDING,
        {**AHEAD, "owner": "owner-1", "priority": 50, "available_time": datetime.now(UTC)},
        "outbox_dispatches_pending",
    ),
    "what goes before a job that is handed out": (
        jobs_ahead._BEFORE_DELIVERED,
        {**AHEAD, "delivered_time": datetime.now(UTC)},
        "outbox_dispatches_delivered",
    ),
    "executors by name": (
        executors._PAGE,
        {"executor_name": "a", "incarnation_id": FIRST_PLACE.incarnation_id, "limit": 50},
        "executor_sessions_by_name",
    ),
}


@pytest.mark.parametrize("case", list(OPERATORS))
async def test_operators_read_no_backlog_but_what_they_count(database_url: str, case: str) -> None:
    statement, parameters, index = OPERATORS[case]
    async with opened(database_url) as transactions:
        await a_backlog(transactions)
        async with transactions.begin() as transaction:
            text = await plan(transaction, statement, parameters)
    assert index in text
    for table in ("outbox", "jobs", "executor_sessions"):
        assert f"Seq Scan on {table}" not in text
