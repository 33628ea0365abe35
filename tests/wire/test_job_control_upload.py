from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
import pytest
import sqlalchemy as sa

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.storage import tables
from tests.support.control_service import Control, bearing, control_running, refused

HEADER = pb.UploadInputRequest(
    header=pb.UploadHeader(media_type="application/pdf", file_name="chapter 1.pdf")
)


def chunk(content: bytes) -> pb.UploadInputRequest:
    return pb.UploadInputRequest(chunk=content)


async def upload(control: Control, parts: Iterable[bytes], *, metadata: Any = ()) -> pb.UploadInputResponse:
    messages = iter([HEADER, *map(chunk, parts)])
    response: pb.UploadInputResponse = await control.stub.UploadInput(messages, metadata=metadata)
    return response


def import_of(upload_id: str) -> pb.CreateJobRequest:
    return pb.CreateJobRequest(job_type="document_import", input=b'{"upload_id": "%s"}' % upload_id.encode())


async def stored(control: Control) -> list[bytes]:
    async with control.transactions.begin() as transaction:
        rows = await transaction.connection.execute(
            sa.select(tables.upload_chunks.c.content).order_by(tables.upload_chunks.c.number)
        )
        return list(rows.scalars())


async def until_nothing_is_stored(control: Control) -> None:
    """The discard runs after the answer, in a task of the service's own."""
    async with asyncio.timeout(10):
        while True:
            async with control.transactions.begin() as transaction:
                left = await transaction.connection.execute(
                    sa.select(sa.func.count()).select_from(tables.uploads)
                )
                if left.scalar_one() == 0:
                    return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("size", [0, 1, 700_000, 3 << 20])
async def test_a_document_is_stored_whole_in_chunks_of_a_sensible_size(control: Control, size: int) -> None:
    document = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    parts = [document[start : start + 100_000] for start in range(0, size, 100_000)]
    uploaded = await upload(control, parts)
    assert uploaded.document_bytes == size
    assert uploaded.sha256 == hashlib.sha256(document).hexdigest()
    chunks = await stored(control)
    assert b"".join(chunks) == document
    assert all(len(each) >= 256 * 1024 for each in chunks[:-1])


async def test_an_input_refers_to_a_document_of_its_owner(guarded_control: Control) -> None:
    control = guarded_control
    ada, bob = bearing("ada", "jobs.write"), bearing("bob", "jobs.write")
    uploaded = await upload(control, [b"text"], metadata=ada)
    wish = import_of(uploaded.upload_id)
    made = await control.stub.CreateJob(wish, metadata=ada)
    assert made.job.state == job_pb2.JOB_STATE_QUEUED
    async with control.transactions.begin() as transaction:
        kept = await transaction.connection.execute(sa.select(tables.snapshots.c.upload_id))
        assert str(kept.scalar_one()) == uploaded.upload_id

    refusal = await refused(control.stub.CreateJob(wish, metadata=bob))
    assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["input.upload_id"])


async def test_a_backend_uploads_for_whom_it_acts(guarded_control: Control) -> None:
    control = guarded_control
    backend = bearing("backend", "jobs.write", "jobs.on_behalf")
    header = pb.UploadInputRequest(header=pb.UploadHeader(owner="ada"))
    uploaded = await control.stub.UploadInput(iter([header, chunk(b"a")]), metadata=backend)
    wish = import_of(uploaded.upload_id)
    assert (await control.stub.CreateJob(wish, metadata=bearing("ada", "jobs.write"))).job.owner == "ada"
    refusal = await refused(control.stub.UploadInput(iter([header]), metadata=bearing("bob", "jobs.write")))
    assert refusal.metadata == {"scope": "jobs.on_behalf"}


async def test_a_replay_does_not_need_the_document_any_more(control: Control) -> None:
    uploaded = await upload(control, [b"text"])
    wish = import_of(uploaded.upload_id)
    wish.idempotency_key = "a-key-of-this-test"
    made = await control.stub.CreateJob(wish)
    async with control.transactions.begin() as transaction:
        await transaction.connection.execute(sa.delete(tables.uploads))
    again = await control.stub.CreateJob(wish)
    assert (again.replayed, again.job.job_id) == (True, made.job.job_id)


async def test_a_key_is_not_used_up_by_a_wish_for_a_document_that_is_not_there(control: Control) -> None:
    wish = import_of("00000000-0000-7000-8000-000000000001")
    wish.idempotency_key = "a-key-of-this-test"
    refusal = await refused(control.stub.CreateJob(wish))
    assert refusal.fields == ["input.upload_id"]
    other = import_of((await upload(control, [b"text"])).upload_id)
    other.idempotency_key = "a-key-of-this-test"
    assert not (await control.stub.CreateJob(other)).replayed


async def test_a_document_over_its_limit_is_refused_and_nothing_of_it_is_kept(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with control_running(
        database_url, redis_url, redis_prefix, limits={"document_bytes_max": 600_000}
    ) as control:
        refusal = await refused(
            control.stub.UploadInput(iter([HEADER, chunk(bytes(300_000)), chunk(bytes(300_001))]))
        )
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.reason == "PAYLOAD_TOO_LARGE"
        assert refusal.metadata["limit_bytes"] == "600000"
        await until_nothing_is_stored(control)
        assert (await upload(control, [bytes(600_000)])).document_bytes == 600_000


async def test_a_chunk_over_its_limit_is_refused(control: Control) -> None:
    refusal = await refused(control.stub.UploadInput(iter([HEADER, chunk(bytes((1 << 20) + 1))])))
    assert (refusal.reason, refusal.metadata["field"]) == ("PAYLOAD_TOO_LARGE", "chunk")
    await until_nothing_is_stored(control)


OUT_OF_PLACE: list[tuple[list[pb.UploadInputRequest], str]] = [
    ([], "header"),
    ([chunk(b"a")], "header"),
    ([pb.UploadInputRequest()], "header"),
    ([HEADER, HEADER], "chunk"),
    ([HEADER, chunk(b"a"), pb.UploadInputRequest()], "chunk"),
    ([pb.UploadInputRequest(header=pb.UploadHeader(media_type="a" * 201))], "header.media_type"),
    ([pb.UploadInputRequest(header=pb.UploadHeader(file_name="a\0b"))], "header.file_name"),
    ([pb.UploadInputRequest(header=pb.UploadHeader(owner="a\nb"))], "header.owner"),
]


async def test_messages_out_of_place_are_refused(control: Control) -> None:
    for messages, field in OUT_OF_PLACE:
        refusal = await refused(control.stub.UploadInput(iter(messages)))
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", [field])
    await until_nothing_is_stored(control)


async def test_a_caller_that_goes_away_in_the_middle_leaves_nothing(control: Control) -> None:
    first_is_sent = asyncio.Event()

    async def endless() -> AsyncIterator[pb.UploadInputRequest]:
        yield HEADER
        yield chunk(bytes(300_000))
        first_is_sent.set()
        await asyncio.Event().wait()

    call = control.stub.UploadInput(endless())
    await first_is_sent.wait()
    async with asyncio.timeout(10):
        while not await stored(control):  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.02)
    call.cancel()
    await until_nothing_is_stored(control)
