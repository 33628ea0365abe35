"""Batches are created whole or not at all, and once for each key."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
import sqlalchemy as sa

from job_api.loops.retention import Retention
from job_api.operations.create_batch import CreateBatchCommand
from job_api.operations.create_jobs import CreateJob, CreateJobs
from job_api.operations.creating import Creating
from job_api.operations.job_request import VIOLATIONS_MAX, CreateJobCommand, JobRequests, Overrides
from job_api.operations.owner_quotas import OwnerLimits, OwnerQuotas
from job_api.operations.retry_job import RetryCommand, RetryJob
from shared.catalog import catalog as catalogs
from shared.catalog.definition import CredentialMode
from shared.domain.batches import BatchCounters, BatchState
from shared.domain.errors import (
    IdempotencyKeyReused,
    InvalidInput,
    PayloadTooLarge,
    PermissionDenied,
    TooManyJobs,
    UnknownJobType,
)
from shared.domain.identity import JobId, Owner, UploadId
from shared.domain.jobs import JobState, Target
from shared.runtime.ids import new_id
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps
from tests.support.batch_calls import KEY_LIFE, OWNER, BatchCalls
from tests.support.batches import SUCCESS, end, events_of, faults_of_batches, jobs_of, the_batch
from tests.support.database_time import DatabaseTime
from tests.support.storage import job_in, the_job

KEY = "a-key-of-its-own"


@pytest.fixture
def calls(transactions: Transactions, wake_ups: WakeUps) -> BatchCalls:
    return BatchCalls(transactions, wake_ups)


@pytest.fixture
def create_job(transactions: Transactions) -> CreateJob:
    requests = JobRequests(catalogs.load(), input_bytes_max=1024)
    return CreateJob(CreateJobs(transactions, requests, creating()))


def creating() -> Creating:
    return Creating(new_id=new_id, keys_kept_for=KEY_LIFE, wake_dispatcher=asyncio.Event())


async def rows_in(transactions: Transactions, *tables: str) -> dict[str, int]:
    async with transactions.begin() as transaction:
        return {
            table: (
                await transaction.connection.execute(sa.text(f"select count(*) from {table}"))
            ).scalar_one()
            for table in tables
        }


async def test_each_input_becomes_a_job_with_the_number_of_its_place(
    transactions: Transactions, calls: BatchCalls
) -> None:
    command = CreateBatchCommand(
        job_type="synthetic",
        inputs=[b'{"items": 1}', b'{"items": 2}', b'{"items": 3}'],
        title="Three of them",
        target=Target("chapter", "7"),
        overrides=Overrides(priority=5),
        labels={"course": "bio"},
    )
    creation = await calls.create_batch(OWNER, command)

    batch = creation.batch
    assert (batch.state, batch.size, batch.title) == (BatchState.QUEUED, 3, "Three of them")
    assert (batch.target, batch.labels) == (Target("chapter", "7"), {"course": "bio"})
    assert (batch.counters, creation.replayed) == (BatchCounters(3, 0, 0, 0, 0), False)
    assert calls.woken.is_set()
    jobs = [await the_job(transactions, each) for each in await jobs_of(transactions, batch.batch_id)]
    assert [(each.batch_id, each.batch_item) for each in jobs] == [(batch.batch_id, n) for n in (1, 2, 3)]
    assert {(each.priority, each.target, each.labels["course"]) for each in jobs} == {
        (5, Target("chapter", "7"), "bio")
    }
    statement = sa.text("select input from snapshots join jobs using (job_id) order by batch_item")
    async with transactions.begin() as transaction:
        inputs = [bytes(row.input) for row in await transaction.connection.execute(statement)]
    assert inputs == list(command.inputs)
    assert [each.number for each in await events_of(transactions, batch.batch_id)] == [1]


async def test_the_same_key_and_content_is_the_same_batch_however_the_json_is_written(
    transactions: Transactions, calls: BatchCalls
) -> None:
    first = await calls.create([b'{"items":1,"note":"n"}', b"{}"], key=KEY)
    again = await calls.create([b'{ "note": "n", "items": 1 }', b"{ }"], key=KEY)

    assert (again.batch, again.replayed) == (first.batch, True)
    assert (await rows_in(transactions, "batches", "jobs")) == {"batches": 1, "jobs": 2}


@pytest.mark.parametrize(
    "other", [[b"{}"], [b"{}", b"{}", b"{}"], [b"{}", b'{"items": 2}']], ids=["fewer", "more", "another"]
)
async def test_a_key_with_other_content_is_refused_and_names_its_batch(
    calls: BatchCalls, other: list[bytes]
) -> None:
    batch_id = (await calls.create([b"{}", b"{}"], key=KEY)).batch.batch_id
    with pytest.raises(IdempotencyKeyReused) as refused:
        await calls.create(other, key=KEY)
    assert refused.value.metadata == {"batch_id": str(batch_id)}


async def test_jobs_and_batches_share_their_keys(
    transactions: Transactions, calls: BatchCalls, create_job: CreateJob
) -> None:
    job = (await create_job(OWNER, CreateJobCommand(job_type="synthetic", input=b"{}", key=KEY))).job
    with pytest.raises(IdempotencyKeyReused) as by_batch:
        await calls.create([b"{}"], key=KEY)
    assert by_batch.value.metadata == {"job_id": str(job.job_id)}

    other = KEY + "-2"
    batch_id = (await calls.create([b"{}"], key=other)).batch.batch_id
    with pytest.raises(IdempotencyKeyReused) as by_job:
        await create_job(OWNER, CreateJobCommand(job_type="synthetic", input=b"{}", key=other))
    assert by_job.value.metadata == {"batch_id": str(batch_id)}

    retry = RetryJob(transactions, catalogs.load(), creating())
    failed = await job_in(transactions, JobState.FAILED)
    with pytest.raises(IdempotencyKeyReused) as by_retry:
        await retry(OWNER, RetryCommand(failed, key=other))
    assert by_retry.value.metadata == {"batch_id": str(batch_id)}


async def test_many_calls_at_once_with_one_key_create_one_batch(
    transactions: Transactions, calls: BatchCalls
) -> None:
    creations = await asyncio.gather(*(calls.create([b"{}"] * 3, key=KEY) for _ in range(12)))

    assert len({each.batch.batch_id for each in creations}) == 1
    assert sum(each.replayed for each in creations) == 11
    assert await rows_in(transactions, "batches", "jobs", "batch_events") == {
        "batches": 1,
        "jobs": 3,
        "batch_events": 1,
    }


async def test_a_key_is_kept_until_its_batch_has_settled(
    transactions: Transactions, calls: BatchCalls, database_time: DatabaseTime
) -> None:
    batch_id = (await calls.create([b"{}"], key=KEY)).batch.batch_id
    await database_time.jump(KEY_LIFE + timedelta(hours=1))
    await Retention(transactions).step()
    assert (await calls.create([b"{}"], key=KEY)).batch.batch_id == batch_id

    await end(transactions, batch_id, {1: SUCCESS})
    await Retention(transactions).step()
    assert (await calls.create([b"{}"], key=KEY)).batch.batch_id != batch_id


async def test_what_is_wrong_is_named_by_the_place_of_its_item_and_nothing_is_created(
    transactions: Transactions, calls: BatchCalls
) -> None:
    inputs = [b"{}"] * 20
    inputs[3], inputs[17], inputs[19] = b"not json", b'{"items": -1}', b'{"unheard_of": 1}'
    with pytest.raises(InvalidInput) as refused:
        await calls.create(inputs, key=KEY)

    fields = [each.field for each in refused.value.violations]
    assert fields == ["inputs[3]", "inputs[17].items", "inputs[19].unheard_of"]
    assert set((await rows_in(transactions, "batches", "jobs", "idempotency_keys")).values()) == {0}


async def test_no_more_is_said_than_a_person_mends_at_a_time(calls: BatchCalls) -> None:
    with pytest.raises(InvalidInput) as refused:
        await calls.create([b'{"items": -1}'] * 1_000)
    assert len(refused.value.violations) == VIOLATIONS_MAX


async def test_what_all_items_share_is_at_fault_once(calls: BatchCalls) -> None:
    overrides = Overrides(credential_mode=CredentialMode.USER_KEY)
    command = CreateBatchCommand(job_type="synthetic", inputs=[b"{}"] * 3, overrides=overrides)
    with pytest.raises(InvalidInput) as refused:
        await calls.create_batch(OWNER, command)
    assert [each.field for each in refused.value.violations] == ["overrides.credential_mode"]


async def test_an_input_that_is_too_large_an_unknown_type_and_another_owner_are_refused(
    transactions: Transactions, calls: BatchCalls
) -> None:
    with pytest.raises(PayloadTooLarge) as too_large:
        await calls.create([b"{}", b'{"note": "%s"}' % (b"n" * 2_000)])
    assert too_large.value.field == "inputs[1]"
    with pytest.raises(UnknownJobType):
        await calls.create([b"{}"], job_type="unheard_of")
    command = CreateBatchCommand(job_type="synthetic", inputs=[b"{}"], owner=Owner("another"))
    with pytest.raises(PermissionDenied):
        await calls.create_batch(OWNER, command)
    assert await rows_in(transactions, "batches", "jobs") == {"batches": 0, "jobs": 0}


async def an_upload(transactions: Transactions) -> UploadId:
    upload_id = UploadId(new_id())
    async with transactions.begin() as transaction:
        await transaction.uploads.begin(upload_id, OWNER.subject, media_type="text/plain", file_name="a.txt")
        await transaction.uploads.add_chunk(upload_id, 1, b"text")
        await transaction.uploads.complete(upload_id, document_bytes=4, sha256="00")
    return upload_id


async def test_items_refer_to_documents_that_their_owner_has_uploaded(
    transactions: Transactions, calls: BatchCalls
) -> None:
    there, missing = await an_upload(transactions), JobId(new_id())
    refers = [b'{"upload_id": "%s"}' % str(each).encode() for each in (there, missing)]
    with pytest.raises(InvalidInput) as refused:
        await calls.create(refers, job_type="document_import")
    assert [each.field for each in refused.value.violations] == ["inputs[1].upload_id"]

    creation = await calls.create([refers[0], refers[0]], job_type="document_import")
    statement = sa.text("select distinct upload_id from snapshots")
    async with transactions.begin() as transaction:
        assert (await transaction.connection.execute(statement)).scalars().all() == [there]
    assert creation.batch.size == 2


async def test_a_batch_that_does_not_fit_into_its_owner_s_limits_is_refused_whole_and_leaves_its_key_free(
    transactions: Transactions, wake_ups: WakeUps
) -> None:
    calls = BatchCalls(transactions, wake_ups, quotas=OwnerQuotas(OwnerLimits(active_jobs=4)))
    await calls.create([b"{}"] * 2)
    with pytest.raises(TooManyJobs):
        await calls.create([b"{}"] * 3, key=KEY)
    assert await rows_in(transactions, "batches", "jobs") == {"batches": 1, "jobs": 2}

    assert not (await calls.create([b"{}"] * 2, key=KEY)).replayed
    assert await faults_of_batches(transactions) == []


async def test_the_state_of_a_new_batch_is_what_its_first_event_tells(
    transactions: Transactions, calls: BatchCalls
) -> None:
    batch = (await calls.create([b"{}"] * 2)).batch
    (event,) = await events_of(transactions, batch.batch_id)
    assert (event.state, event.counters) == (batch.state, batch.counters)
    assert await the_batch(transactions, batch.batch_id) == batch
