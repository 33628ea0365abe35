"""What is removed, and what must stay, on a real database."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import sqlalchemy as sa

from job_api.loops.retention import Retention
from shared.domain.identity import JobId, JobType, Owner, UploadId
from shared.domain.jobs import JobState
from shared.runtime.ids import new_id
from shared.storage.idempotency import IdempotencyKey, KeyClaim
from shared.storage.transactions import Transactions
from tests.support.database_time import DatabaseTime
from tests.support.storage import a_job, a_lease, a_session, claim, claim_request, job_in

DAY = timedelta(days=1)
OWNER = Owner("owner")

_TIME_THAT_WAITS = sa.text("""
create or replace function engine_time() returns timestamptz language plpgsql volatile as $$
begin
    perform pg_advisory_xact_lock_shared(1);
    return clock_timestamp() + interval '2 days';
end $$
""")
_WHO_WAITS = sa.text("select count(*) from pg_locks where locktype = 'advisory' and not granted")


async def bind(transactions: Transactions, key: str, new: JobId) -> JobId:
    """Bind a key to a job if it is free, and return what it stands for."""
    wanted = IdempotencyKey(OWNER, JobType("synthetic"), key)
    async with transactions.begin() as transaction:
        bound = await transaction.idempotency.claim([KeyClaim(wanted, b"f", new)], kept_for=DAY)
    job_id = bound[wanted].job_id
    assert job_id is not None
    return job_id


async def an_upload(transactions: Transactions) -> UploadId:
    upload_id = UploadId(new_id())
    async with transactions.begin() as transaction:
        await transaction.uploads.begin(upload_id, OWNER, media_type="text/plain", file_name="a.txt")
        await transaction.uploads.add_chunk(upload_id, 1, b"text")
        await transaction.uploads.complete(upload_id, document_bytes=4, sha256="00")
    return upload_id


async def test_expired_keys_are_free_again_once_their_jobs_have_ended(
    transactions: Transactions, database_time: DatabaseTime
) -> None:
    ended, waiting = await job_in(transactions, JobState.SUCCEEDED), await a_job(transactions)
    await bind(transactions, "of-ended", ended)
    await bind(transactions, "of-waiting", waiting)

    await Retention(transactions).step()
    other = await a_job(transactions)
    assert await bind(transactions, "of-ended", other) == ended

    await database_time.jump(DAY + timedelta(hours=1))
    assert await Retention(transactions).step() is False
    assert await bind(transactions, "of-ended", other) == other
    assert await bind(transactions, "of-waiting", other) == waiting


async def test_documents_that_no_job_refers_to_are_removed_after_a_day(
    transactions: Transactions, database_time: DatabaseTime
) -> None:
    unused, used = await an_upload(transactions), await an_upload(transactions)
    await a_job(transactions, upload_id=used)
    both = frozenset({unused, used})

    await Retention(transactions).step()
    async with transactions.begin() as transaction:
        assert await transaction.uploads.lock_complete(OWNER, both) == both

    await database_time.jump(DAY + timedelta(hours=1))
    await Retention(transactions).step()
    async with transactions.begin() as transaction:
        assert await transaction.uploads.lock_complete(OWNER, both) == {used}
        assert await transaction.uploads.chunk(unused, 1) is None


async def test_a_document_that_a_job_begins_to_refer_to_meanwhile_stays(transactions: Transactions) -> None:
    """Its removal looks while the job is not committed yet, and takes the document's lock when it is."""
    upload_id = await an_upload(transactions)
    async with transactions.begin() as transaction:
        await transaction.connection.execute(_TIME_THAT_WAITS)

    async with transactions.begin() as transaction:
        await transaction.connection.execute(sa.text("select pg_advisory_xact_lock(1)"))
        removal = asyncio.create_task(Retention(transactions).step())
        while not (await transaction.connection.execute(_WHO_WAITS)).scalar_one():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert await transaction.uploads.lock_complete(OWNER, frozenset({upload_id}))
        await transaction.connection.execute(
            sa.text("insert into snapshots (job_id, input, upload_id) values (gen_random_uuid(), '', :id)"),
            {"id": upload_id},
        )
    await removal

    async with transactions.begin() as transaction:
        assert await transaction.uploads.chunk(upload_id, 1) == b"text"


async def test_sessions_long_gone_are_forgotten_but_not_while_they_hold_a_lease(
    transactions: Transactions, database_time: DatabaseTime
) -> None:
    gone, holder = await a_session(transactions), await a_session(transactions)
    await a_lease(transactions, session=holder)
    await database_time.jump(DAY + timedelta(hours=1))

    await Retention(transactions).step()

    job_id = await a_job(transactions)
    assert await claim(transactions, claim_request(gone, job_id)) == []
    assert len(await claim(transactions, claim_request(holder, job_id))) == 1
