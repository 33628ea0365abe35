"""What is read of batches, page by page, and how much of the database that takes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from job_api.operations.caller import Caller
from job_api.operations.get_batch import GetBatch
from job_api.operations.list_batch_items import ListBatchItems
from job_api.operations.list_batches import BatchFilter, ListBatches
from job_api.operations.paging import Page, PageRequest
from shared.domain.batches import Batch, BatchState
from shared.domain.errors import BatchNotFound, InvalidPageToken, PermissionDenied
from shared.domain.identity import BatchId, JobType, Owner
from shared.domain.jobs import JobState
from shared.storage import batch_changes, batch_lists, batches
from shared.storage.transactions import Transactions
from tests.support.batch_calls import OWNER, STRANGER
from tests.support.batches import FAILURE, SUCCESS, a_batch, end, jobs_of, start, the_batch

ADMIN = Caller(Owner("admin"), sees_all=True)
ALL = BatchFilter()


@pytest.fixture
def list_batches(transactions: Transactions) -> ListBatches:
    return ListBatches(transactions)


def ids(page: Page[Batch]) -> list[BatchId]:
    return [each.batch_id for each in page.items]


async def test_batches_come_newest_first_page_by_page_and_each_once(
    transactions: Transactions, list_batches: ListBatches
) -> None:
    made = [await a_batch(transactions, 1) for _ in range(5)]
    await a_batch(transactions, 1, owner="stranger")
    first = await list_batches(OWNER, ALL, PageRequest(2))
    newer = await a_batch(transactions, 1)
    second = await list_batches(OWNER, ALL, PageRequest(2, first.next_token))
    last = await list_batches(OWNER, ALL, PageRequest(2, second.next_token))

    assert [*ids(first), *ids(second), *ids(last)] == list(reversed(made))
    assert last.next_token == ""
    assert ids(await list_batches(OWNER, ALL, PageRequest(1))) == [newer]
    assert len(ids(await list_batches(ADMIN, ALL, PageRequest(50)))) == 7


async def test_filters_let_through_what_fits_all_of_them(
    transactions: Transactions, list_batches: ListBatches
) -> None:
    reel = await a_batch(transactions, 1, title="The 5% reel")
    done = await a_batch(transactions, 1, title="the other REEL")
    await end(transactions, done, {1: SUCCESS})
    failed = await a_batch(transactions, 1)
    await end(transactions, failed, {1: FAILURE})
    created = (await the_batch(transactions, done)).create_time
    cases: dict[BatchFilter, list[BatchId]] = {
        BatchFilter(states=frozenset({BatchState.AWAITING_REVIEW})): [done],
        BatchFilter(states=frozenset({BatchState.QUEUED, BatchState.FAILED})): [failed, reel],
        BatchFilter(text="reel"): [done, reel],
        BatchFilter(text="5% r"): [reel],
        BatchFilter(text="5_ r"): [],
        BatchFilter(job_type=JobType("synthetic"), created_from=created): [failed, done],
        BatchFilter(created_to=created): [reel],
        BatchFilter(created_from=created, created_to=created + timedelta(microseconds=1)): [done],
        BatchFilter(job_type=JobType("image_render")): [],
        BatchFilter(target_type="chapter"): [],
        BatchFilter(owner=OWNER.subject, states=frozenset(BatchState)): [failed, done, reel],
    }
    for wanted, found in cases.items():
        assert ids(await list_batches(OWNER, wanted, PageRequest(50))) == found, wanted


async def test_a_token_opens_no_other_list_and_an_owner_sees_no_other_s_batches(
    transactions: Transactions, list_batches: ListBatches
) -> None:
    for _ in range(2):
        await a_batch(transactions, 1)
    token = (await list_batches(OWNER, ALL, PageRequest(1))).next_token
    failed = BatchFilter(states=frozenset({BatchState.FAILED}))
    for caller, wanted, sent in ((OWNER, failed, token), (ADMIN, ALL, token), (OWNER, ALL, token[:-2])):
        with pytest.raises(InvalidPageToken):
            await list_batches(caller, wanted, PageRequest(1, sent))
    with pytest.raises(PermissionDenied):
        await list_batches(STRANGER, BatchFilter(owner=OWNER.subject), PageRequest(1))
    assert ids(await list_batches(STRANGER, ALL, PageRequest(1))) == []


async def test_items_come_by_number_with_their_newest_jobs(transactions: Transactions) -> None:
    batch_id = await a_batch(transactions, 5)
    await end(transactions, batch_id, {2: FAILURE, 4: FAILURE, 5: SUCCESS})
    await start(transactions, batch_id, [3])
    listing = ListBatchItems(transactions)
    first = await listing(OWNER, batch_id, frozenset(), PageRequest(3))
    rest = await listing(OWNER, batch_id, frozenset(), PageRequest(3, first.next_token))
    failed = frozenset({JobState.FAILED})
    some = await listing(OWNER, batch_id, failed, PageRequest(1))
    others = await listing(OWNER, batch_id, failed, PageRequest(1, some.next_token))

    items = [*first.items, *rest.items]
    assert [each.number for each in items] == [1, 2, 3, 4, 5]
    assert [each.job.job_id for each in items] == await jobs_of(transactions, batch_id)
    assert [each.job.state for each in items] == [
        JobState.QUEUED,
        JobState.FAILED,
        JobState.RUNNING,
        JobState.FAILED,
        JobState.SUCCEEDED,
    ]
    assert [each.attempt_count for each in items] == [0, 1, 1, 1, 1]
    assert [(each.number, each.job.error) for each in (*some.items, *others.items)] == [
        (2, FAILURE.error),
        (4, FAILURE.error),
    ]
    assert (rest.next_token, others.next_token) == ("", "")
    other = await a_batch(transactions, 5)
    for wanted, states in ((other, frozenset[JobState]()), (batch_id, failed)):
        with pytest.raises(InvalidPageToken):
            await listing(OWNER, wanted, states, PageRequest(3, first.next_token))
    with pytest.raises(BatchNotFound):
        await listing(STRANGER, batch_id, frozenset(), PageRequest(3))


async def test_a_batch_shows_its_failed_items_at_once(transactions: Transactions) -> None:
    batch_id = await a_batch(transactions, 4)
    await end(transactions, batch_id, {3: FAILURE, 1: FAILURE, 2: SUCCESS})
    get_batch = GetBatch(transactions)
    reading = await get_batch(OWNER, batch_id)

    assert reading.batch == await the_batch(transactions, batch_id)
    assert [(each.number, each.job.error) for each in reading.failed_items] == [
        (1, FAILURE.error),
        (3, FAILURE.error),
    ]
    assert reading.batch.progress == 75
    with pytest.raises(BatchNotFound):
        await get_batch(STRANGER, batch_id)
    assert (await get_batch(ADMIN, batch_id)).batch == reading.batch


async def test_events_of_many_batches_are_read_together_each_from_its_own_place(
    transactions: Transactions,
) -> None:
    first, second = await a_batch(transactions, 2), await a_batch(transactions, 1)
    for each in (first, second):
        await end(transactions, each, {1: SUCCESS})
    async with transactions.begin() as transaction:
        found = await transaction.batches.events_after({first: 1, second: 2}, limit=2)
    assert sorted((each.batch_id, each.number) for each in found) == sorted(
        [(first, 2), (first, 3), (second, 3), (second, 4)]
    )


async def plan(transactions: Transactions, statement: Any, parameters: dict[str, Any] | None = None) -> str:
    if not isinstance(statement, sa.TextClause):
        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
        compiled = statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
        statement = sa.text(str(compiled).replace(":", r"\:"))
    async with transactions.begin() as transaction:
        rows = await transaction.connection.execute(sa.text(f"explain {statement}"), parameters)
        return "\n".join(row[0] for row in rows)


async def test_a_large_batch_is_found_among_many_by_keys_alone(transactions: Transactions) -> None:
    for _ in range(30):
        await a_batch(transactions, 100)
    batch_id = await a_batch(transactions, 1_000)
    jobs = await jobs_of(transactions, batch_id)
    async with transactions.begin() as transaction:
        await transaction.connection.execute(sa.text("analyze"))
    of_batch = {"batch_id": batch_id, "numbers": [1, 2, 3], "job_ids": jobs[:3]}
    plans = {
        "a page of items": await plan(
            transactions,
            batch_lists.items_statement(batch_id, states=frozenset(), after=100, limit=51),
        ),
        "failed items": await plan(
            transactions,
            batch_lists.items_statement(batch_id, states=frozenset({JobState.FAILED}), after=0, limit=51),
        ),
        "events": await plan(
            transactions, batches._EVENTS_AFTER, {"batch_ids": [batch_id], "numbers": [0], "limit": 250}
        ),
        "open jobs": await plan(transactions, batch_changes._LOCK_OPEN, {"batch_id": batch_id}),
        "items to retry": await plan(transactions, batch_changes._LOCK_ITEMS, of_batch),
        "a retry": await plan(transactions, batch_changes._RETRY, of_batch),
        "a selection": await plan(transactions, batch_changes._SELECT, of_batch),
        "a cancel": await plan(transactions, batch_changes._REQUEST_CANCEL, {"batch_id": batch_id}),
    }
    for name, text in plans.items():
        for table in ("jobs", "batches", "batch_items", "batch_events", "leases"):
            assert f"Seq Scan on {table}" not in text, f"{name}: {text}"
    assert "jobs_by_batch" in plans["a page of items"]
    assert "jobs_by_batch" in plans["open jobs"]
