"""The client of asyncio on a real connection: what breaks, runs out, is left or is cancelled."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import grpc
import pytest
from grpc_status import rpc_status

from job_api.client import AsyncClient, CallFailed, JobEvent, JobEventKind, JobId, TimeOver, errors
from job_api.client.async_calls import AsyncPace
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.rpc.status import rich_status
from tests.support.scripted_control import JOB
from tests.support.scripted_streams import (
    BREAKS,
    CREATED,
    FINISHED,
    STARTED,
    SUCCEEDED,
    Ending,
    ScriptedServicer,
    aborting,
    playing,
    quietly,
    serving,
    staying,
)

JOB_ID = JobId(UUID(JOB))
UNAVAILABLE = aborting(grpc.StatusCode.UNAVAILABLE, "going away")


class Slept:
    """A pace whose waits are noted and take no time but on its own clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.pace = AsyncPace(lambda: self.now, self._sleep, lambda: 0.5)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@asynccontextmanager
async def connected(
    servicer: ScriptedServicer, *, within: timedelta = timedelta(seconds=5), slept: Slept | None = None
) -> AsyncIterator[AsyncClient]:
    with serving(servicer) as address:
        channel = grpc.aio.insecure_channel(address)
        pace = (slept or Slept()).pace
        async with AsyncClient.over(channel, timeout=within, pace=pace) as client:
            yield client


async def happens(event: threading.Event) -> bool:
    return await asyncio.to_thread(event.wait, 5)


async def only_left(tasks: set[asyncio.Task[object]]) -> None:
    """Wait until no other tasks are there than these."""
    async with asyncio.timeout(5):
        while more := asyncio.all_tasks() - tasks:
            await asyncio.wait(more)


@pytest.mark.parametrize(("last_words", "end"), BREAKS.values(), ids=BREAKS)
async def test_a_watch_that_breaks_goes_on_after_its_last_cursor(
    last_words: list[pb.WatchJobResponse], end: Ending
) -> None:
    servicer = playing(([CREATED, STARTED, *last_words], end), ([], end), ([SUCCEEDED, FINISHED], quietly))
    async with connected(servicer) as client:
        happened = [update.what async for update in client.watch(JOB_ID)]

    assert [each.kind for each in happened if isinstance(each, JobEvent)] == [
        JobEventKind.CREATED,
        JobEventKind.STARTED,
        JobEventKind.SUCCEEDED,
    ]
    assert [each.cursor for each in servicer.asked] == ["", "after-2", "after-2"]


async def test_a_watch_of_a_job_that_does_not_exist_is_refused_and_not_asked_for_again() -> None:
    def refuse(context: grpc.ServicerContext) -> None:
        context.abort_with_status(rpc_status.to_status(rich_status(errors.JobNotFound(JOB_ID))))

    servicer = playing(([], refuse))
    async with connected(servicer) as client:
        with pytest.raises(errors.JobNotFound):
            await anext(client.watch(JOB_ID))

    assert len(servicer.asked) == 1


async def test_a_watch_of_a_service_that_stays_away_is_given_up_in_time() -> None:
    slept = Slept()
    async with AsyncClient.over(grpc.aio.insecure_channel("127.0.0.1:1"), pace=slept.pace) as client:
        with pytest.raises(CallFailed, match="UNAVAILABLE"):
            await anext(client.watch(JOB_ID))

    assert 60 < slept.now < 65


async def test_a_watch_ends_when_its_callers_time_is_over() -> None:
    servicer = playing(([CREATED], staying))
    with serving(servicer) as address:
        async with AsyncClient(address) as client:
            updates = client.watch(JOB_ID, within=timedelta(seconds=0.3))
            await anext(updates)
            with pytest.raises(TimeOver, match="goes on"):
                await anext(updates)

        assert await happens(servicer.left)


async def test_a_creation_is_tried_again_under_one_key_until_the_service_is_back() -> None:
    slept = Slept()
    servicer = playing(refusals=[UNAVAILABLE, UNAVAILABLE])
    async with connected(servicer, slept=slept) as client:
        job = await client.create_job("synthetic", {"items": 3})

    assert job.job_id == JOB_ID
    assert len(servicer.created) == 3
    assert len({each.idempotency_key for each in servicer.created}) == 1
    assert slept.waits == [0.05, 0.1]


async def test_what_is_not_known_to_be_safe_is_not_tried_again() -> None:
    servicer = playing(refusals=[aborting(grpc.StatusCode.INTERNAL, "internal error, ref 12")])
    async with connected(servicer) as client:
        with pytest.raises(CallFailed, match="ref 12"):
            await client.create_job("synthetic", {})

    assert len(servicer.created) == 1


async def test_all_tries_together_end_by_the_deadline() -> None:
    slept = Slept()
    servicer = playing(refusals=[UNAVAILABLE] * 50)
    async with connected(servicer, slept=slept, within=timedelta(seconds=3)) as client:
        with pytest.raises(CallFailed, match="UNAVAILABLE: going away"):
            await client.create_job("synthetic", {})

    assert slept.waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert slept.now < 3


async def test_a_service_that_does_not_answer_is_given_up_at_the_deadline() -> None:
    async with connected(playing(), within=timedelta(seconds=0.2)) as client:
        with pytest.raises(CallFailed, match="DEADLINE_EXCEEDED"):
            await client.get(JOB_ID)


async def test_a_task_that_is_cancelled_in_a_watch_leaves_no_stream_and_no_task() -> None:
    watched = asyncio.Event()
    servicer = playing(([CREATED], staying))

    async with connected(servicer) as client:

        async def follow() -> None:
            async for _ in client.watch(JOB_ID):
                watched.set()

        before = asyncio.all_tasks()
        following = asyncio.create_task(follow())
        await watched.wait()
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following

        assert await happens(servicer.left)
        await only_left(before)


async def test_a_task_that_is_cancelled_in_a_call_ends_it_at_the_service() -> None:
    servicer = playing()
    async with connected(servicer) as client:
        before = asyncio.all_tasks()
        calling = asyncio.create_task(client.get(JOB_ID))
        assert await happens(servicer.waiting)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

        assert await happens(servicer.left)
        await only_left(before)


async def test_a_time_limit_of_asyncio_ends_a_call_as_it_ends_anything_else() -> None:
    servicer = playing()
    async with connected(servicer) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.get(JOB_ID)

        assert await happens(servicer.left)


async def test_a_watch_that_its_caller_leaves_is_cancelled_at_the_service() -> None:
    servicer = playing(([CREATED], staying))
    async with connected(servicer) as client:
        before = asyncio.all_tasks()
        async for _ in client.watch(JOB_ID):
            break

        assert await happens(servicer.left)
        await only_left(before)


async def test_a_closed_client_ends_its_watches_and_calls_with_an_error() -> None:
    watched = asyncio.Event()
    servicer = playing(([CREATED], staying))

    async with connected(servicer) as client:

        async def follow() -> None:
            async for _ in client.watch(JOB_ID):
                watched.set()

        following = asyncio.create_task(follow())
        calling = asyncio.create_task(client.get(JOB_ID))
        await watched.wait()
        assert await happens(servicer.waiting)
        await client.close()
        for each in (following, calling, client.get(JOB_ID)):
            with pytest.raises(CallFailed, match="CANCELLED: the client is closed"):
                await each


async def test_a_client_may_be_made_before_there_is_an_event_loop() -> None:
    with serving(playing()) as address:
        client = await asyncio.to_thread(AsyncClient, address)
        async with client:
            assert (await client.create_job("synthetic", {})).job_id == JOB_ID


async def test_a_file_is_uploaded_whole_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(bytes(range(256)) * 3_000)
    servicer = playing()
    async with connected(servicer) as client:
        upload = await client.upload(path, media_type="application/pdf")

    header, *chunks = servicer.parts
    assert (header.header.file_name, header.header.media_type) == ("report.pdf", "application/pdf")
    assert [part.HasField("chunk") for part in chunks] == [True] * 3
    assert upload.document_bytes == 768_000
    assert upload.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


async def test_a_file_that_is_not_there_is_no_failed_call(tmp_path: Path) -> None:
    async with connected(playing()) as client:
        with pytest.raises(FileNotFoundError):
            await client.upload(tmp_path / "nothing.txt")


async def test_a_file_that_cannot_be_read_to_its_end_is_not_taken_for_a_cancelled_task() -> None:
    unreadable = Path("/proc/self/mem")  # it can be opened; nothing is at its start
    async with connected(playing()) as client:
        with pytest.raises(CallFailed, match="ended on this side"):
            await client.upload(unreadable)
