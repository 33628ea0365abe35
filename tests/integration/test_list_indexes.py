"""A page of a list reads few pages of the database, whatever is asked for and however many jobs there are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio
import sqlalchemy as sa

from shared.domain.batches import BatchState
from shared.domain.identity import BatchId, JobId, Owner
from shared.domain.jobs import JobState
from shared.storage import batch_lists, job_lists, selections, tables
from shared.storage.batch_lists import BatchFilter, BatchPosition
from shared.storage.job_lists import JobFilter, Position
from tests.support import listed_jobs
from tests.support.explained import Explained, connect, explained
from tests.support.servers import PostgresServer
from tests.support.storage import opened

PAGE = 51
"""The default, and one more, which tells that there is another page."""
OWNERS = (None, Owner(listed_jobs.LARGE_OWNER), Owner(listed_jobs.SMALL_OWNER))
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Filled:
    """A database with jobs, and a tenth as many batches."""

    url: str
    jobs: int

    @property
    def middle(self) -> datetime:
        return BEGIN + timedelta(seconds=self.jobs // 2 * listed_jobs.SECONDS_APART)


async def _filled(server: PostgresServer, jobs: int) -> AsyncIterator[Filled]:
    async with server.migrated_database() as url:
        connection = await connect(url)
        try:
            await listed_jobs.fill_jobs(connection, jobs)
            await listed_jobs.fill_batches(connection, jobs // 10)
        finally:
            await connection.close()
        yield Filled(url, jobs)


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[100_000, pytest.param(1_000_000, marks=pytest.mark.prove)],
    ids=["100,000", "1,000,000"],
)
async def filled(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Filled]:
    """The larger one takes half a minute to make."""
    async for each in _filled(postgres_server, request.param):
        yield each


@pytest.fixture
async def connection(filled: Filled) -> AsyncIterator[asyncpg.Connection]:
    connection = await connect(filled.url)
    yield connection
    await connection.close()


@dataclass(frozen=True, slots=True)
class Case:
    """A filter, the indexes that are fit for it, and the most that a page may read.

    A page of jobs side by side takes some 270: for each three pages of an index and one of the table, and for
    its lease another. Where more is allowed, it is said why.
    """

    wanted: Any
    fit: frozenset[str]
    buffers: int = 1_200


def jobs_of(*fit: str, buffers: int = 1_200, **fields: Any) -> Case:
    return Case(JobFilter(**fields), frozenset(fit), buffers)


def in_states(*states: JobState) -> dict[str, Any]:
    return {"states": frozenset(states)}


WAITING = ("outbox_first_by_time", "outbox_first_by_owner")
TEXTS = ("jobs_by_target_id_text", "jobs_by_error_message_text")

JOBS: dict[str, Case] = {
    "all": jobs_of("jobs_by_create_time"),
    "QUEUED": jobs_of(*WAITING, **in_states(JobState.QUEUED)),
    "RUNNING": jobs_of("outbox_later", **in_states(JobState.RUNNING)),
    # All open jobs, which are newer, are passed over.
    "SUCCEEDED": jobs_of("jobs_by_create_time", buffers=2_500, **in_states(JobState.SUCCEEDED)),
    "FAILED": jobs_of("jobs_unsuccessful", **in_states(JobState.FAILED)),
    "CANCELLED": jobs_of("jobs_unsuccessful", **in_states(JobState.CANCELLED)),
    "open": jobs_of(*WAITING, **in_states(JobState.QUEUED, JobState.RUNNING)),
    "running or failed": jobs_of("jobs_unsuccessful", **in_states(JobState.RUNNING, JobState.FAILED)),
    "a large type": jobs_of("jobs_by_type", job_type=listed_jobs.LARGE_TYPE),
    "a rare type": jobs_of("jobs_by_type", job_type=listed_jobs.RARE_TYPE),
    "a type without jobs": jobs_of("jobs_by_type", job_type="none"),
    "a queue": jobs_of("jobs_by_queue", queue="queue_5"),
    "a rare queue": jobs_of("jobs_by_queue", queue="queue_11"),
    "a common target type": jobs_of("jobs_by_target_type", target_type="document"),
    "a rare target type": jobs_of("jobs_by_target_type", target_type=listed_jobs.RARE_TARGET_TYPE),
    "a target": jobs_of("jobs_by_target", target_type="course", target_id="course-77"),
    "a target without jobs": jobs_of("jobs_by_target", target_type="course", target_id="none"),
    "a label of half": jobs_of("jobs_by_create_time", labels={"tier": "gold"}),
    # Two thousand jobs have it: they are sorted, or as many others passed over.
    "a label": jobs_of(
        "jobs_by_labels", "jobs_by_create_time", buffers=8_000, labels={"course": "course-77"}
    ),
    "a rare label": jobs_of("jobs_by_labels", labels={"incident": "incident-1"}),
    "a label without jobs": jobs_of("jobs_by_labels", labels={"none": "none"}),
    "a batch": jobs_of("jobs_by_batch", batch_id=UUID(listed_jobs.BATCH)),
    # Most targets are like that.
    "a text of most": jobs_of("jobs_by_create_time", text="DOC-"),
    # All open jobs are passed over, and 29 of 30 others.
    "a text of all errors": jobs_of(*TEXTS, "jobs_by_create_time", buffers=3_000, text="could not be read"),
    # A thousand jobs hold it: they are read and sorted, or as many others passed over.
    "a text of a target": jobs_of(*TEXTS, "jobs_by_create_time", buffers=8_000, text="course-77"),
    "a rare text": jobs_of(*TEXTS, text="page 4711 of"),
    "a text without jobs": jobs_of(*TEXTS, text="zzqqy"),
}


def require_fit(told: Explained, case: Case, *, of_owner: str, what: str) -> None:
    assert told.buffers <= case.buffers, what
    assert told.indexes & (case.fit | {of_owner}), what
    assert not told.whole_tables & {"jobs", "outbox", "batches"}, what


@pytest.mark.parametrize("name", list(JOBS))
async def test_a_page_of_jobs_reads_little(filled: Filled, connection: asyncpg.Connection, name: str) -> None:
    """Alone and with an owner who has half of all or few, from the newest on and from the middle on."""
    case = JOBS[name]
    for owner in OWNERS:
        for after in (None, Position(filled.middle, JobId(UUID(int=0)))):
            wanted = replace(case.wanted, owner=owner)
            told = await explained(connection, job_lists.page_statement(wanted, after=after, limit=PAGE))
            require_fit(told, case, of_owner="jobs_by_owner", what=f"{name} of {owner} after {after}: {told}")


async def test_a_page_of_a_time_range_reads_that_range_alone(
    filled: Filled, connection: asyncpg.Connection
) -> None:
    for owner in OWNERS:
        wanted = JobFilter(
            owner=owner, created_from=filled.middle, created_to=filled.middle + timedelta(hours=1)
        )
        told = await explained(connection, job_lists.page_statement(wanted, after=None, limit=PAGE))
        fit = Case(wanted, frozenset({"jobs_by_create_time"}))
        require_fit(told, fit, of_owner="jobs_by_owner", what=f"{owner}: {told}")


async def test_a_page_by_states_has_the_jobs_that_are_in_them(filled: Filled) -> None:
    subsets = [set(some) for size in range(1, 6) for some in combinations(JobState, size)]
    plain = sa.select(tables.jobs.c.job_id).order_by(
        tables.jobs.c.create_time.desc(), tables.jobs.c.job_id.desc()
    )
    async with opened(filled.url, pool_size=1) as transactions, transactions.begin() as transaction:
        for owner in OWNERS:
            for states in subsets:
                wanted = JobFilter(owner=owner, states=frozenset(states))
                page = await transaction.jobs.page(wanted, after=None, limit=PAGE)
                one_by_one = plain.where(tables.jobs.c.state.in_(states)).limit(PAGE)
                if owner is not None:
                    one_by_one = one_by_one.where(tables.jobs.c.owner == owner)
                rows = await transaction.connection.execute(one_by_one)
                assert [job.job_id for job in page] == [row.job_id for row in rows]


_FETCHED = sa.text("""
select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'jobs'
""")
STEP = 1_000


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"owner": listed_jobs.LARGE_OWNER},
        {"owner": listed_jobs.SMALL_OWNER},
        {"job_type": listed_jobs.LARGE_TYPE},
        {"job_type": listed_jobs.RARE_TYPE},
        {"labels": {"tier": "gold"}},
        {"owner": listed_jobs.LARGE_OWNER, "labels": {"course": "course-77"}},
        {"target_type": "document"},
        {"text": "could not be read"},
    ],
    ids=str,
)
async def test_a_step_through_a_selection_reads_no_more_than_its_part(
    filled: Filled, fields: dict[str, Any]
) -> None:
    wanted = JobFilter(**fields)
    takes = [(f"type_{number}", 1) for number in range(12)]
    for selection in (
        selections.cancellable(wanted, protected=[]),
        selections.retryable(wanted, takes=takes),  # type: ignore[arg-type]
    ):
        for after in (None, Position(filled.middle, JobId(UUID(int=0)))):
            async with opened(filled.url, pool_size=1) as transactions, transactions.begin() as transaction:
                await transaction.selections.count(selection, after=after, rows=STEP)
                fetched = (await transaction.connection.execute(_FETCHED)).scalar_one()
            assert fetched <= 3 * STEP, (selection, after)


def batches_of(*fit: str, buffers: int = 600, **fields: Any) -> Case:
    return Case(BatchFilter(**fields), frozenset(fit), buffers)


def in_batch_states(*states: BatchState) -> dict[str, Any]:
    return {"states": frozenset(states)}


BATCHES: dict[str, Case] = {
    "all": batches_of("batches_by_create_time"),
    "QUEUED": batches_of("batches_by_state", **in_batch_states(BatchState.QUEUED)),
    "CANCELLED": batches_of(
        "batches_by_state", "batches_by_create_time", **in_batch_states(BatchState.CANCELLED)
    ),
    "AWAITING_REVIEW": batches_of("batches_by_state", **in_batch_states(BatchState.AWAITING_REVIEW)),
    "a state without batches": batches_of("batches_by_state", **in_batch_states(BatchState.SELECTED)),
    # They are scattered, one in 25.
    "two states": batches_of(
        "batches_by_state",
        "batches_by_create_time",
        buffers=900,
        **in_batch_states(BatchState.FAILED, BatchState.CANCELLED),
    ),
    "a rare type": batches_of("batches_by_type", job_type=listed_jobs.RARE_TYPE),
    "a large type": batches_of("batches_by_type", "batches_by_create_time", job_type=listed_jobs.LARGE_TYPE),
    "a target": batches_of("batches_by_target", target_type="course", target_id="course-77"),
    "a common target type": batches_of("batches_by_create_time", target_type="document"),
    # All of them are read and sorted: an index in their order would serve few.
    "a rare target type": batches_of(
        "batches_by_target", "batches_by_create_time", buffers=1_000, target_type=listed_jobs.RARE_TARGET_TYPE
    ),
    "a rare title": batches_of("batches_by_title", text="lost REEL"),
    "a title of most": batches_of("batches_by_create_time", text="chapter"),
    "a title without batches": batches_of("batches_by_title", text="zzqqy"),
}


@pytest.mark.parametrize("name", list(BATCHES))
async def test_a_page_of_batches_reads_little(
    filled: Filled, connection: asyncpg.Connection, name: str
) -> None:
    case = BATCHES[name]
    middle = BEGIN + (filled.middle - BEGIN) / 10
    for owner in OWNERS:
        for after in (None, BatchPosition(middle, BatchId(UUID(int=0)))):
            wanted = replace(case.wanted, owner=owner)
            told = await explained(connection, batch_lists.page_statement(wanted, after=after, limit=PAGE))
            require_fit(
                told, case, of_owner="batches_by_owner", what=f"{name} of {owner} after {after}: {told}"
            )


async def test_a_page_of_batches_of_a_time_range_reads_that_range_alone(
    filled: Filled, connection: asyncpg.Connection
) -> None:
    middle = BEGIN + (filled.middle - BEGIN) / 10
    for owner in OWNERS:
        wanted = BatchFilter(owner=owner, created_from=middle, created_to=middle + timedelta(hours=1))
        told = await explained(connection, batch_lists.page_statement(wanted, after=None, limit=PAGE))
        case = Case(wanted, frozenset({"batches_by_create_time"}), 600)
        require_fit(told, case, of_owner="batches_by_owner", what=f"{owner}: {told}")
