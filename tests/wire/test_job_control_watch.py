from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import grpc
import pytest
import structlog

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.jobs import JobState
from shared.domain.leases import Heartbeat, Lease, LeaseRef
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc, job_pb2
from shared.storage.pieces import OutputPiece
from shared.streams.connection import open_redis
from shared.streams.wake_ups import WakeUps
from tests.support import storage
from tests.support.control_service import Control, control_running, refused

FAILED = AttemptEnd(AttemptOutcome.FAILED, storage.RETRYABLE)
SUCCEEDED = AttemptEnd(AttemptOutcome.SUCCEEDED)
PATIENCE_SECONDS = 20


async def until_ended(watch: Any) -> list[pb.WatchJobResponse]:
    """All messages of a watch, up to its own last word."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        messages = [each async for each in watch]
    assert messages[-1].HasField("ended")
    assert await watch.code() is grpc.StatusCode.OK
    return messages


async def next_of(watch: Any) -> pb.WatchJobResponse:
    async with asyncio.timeout(PATIENCE_SECONDS):
        message: pb.WatchJobResponse = await watch.read()
    return message


def told(messages: Sequence[pb.WatchJobResponse]) -> list[str]:
    """Messages in short: `started 1`, `piece 1.2`, `40 %`, `ended FINISHED`."""
    return [_told(each) for each in messages]


def _told(message: pb.WatchJobResponse) -> str:
    match message.WhichOneof("update"):
        case "event":
            kind = job_pb2.JobEventKind.Name(message.event.kind).removeprefix("JOB_EVENT_KIND_").lower()
            return f"{kind} {message.event.attempt}"
        case "piece":
            return f"piece {message.piece.attempt}.{message.piece.number}"
        case "progress":
            return f"{message.progress.progress} %"
        case "ended":
            return "ended " + pb.WatchEndReason.Name(message.ended.reason).removeprefix("WATCH_END_REASON_")
        case _:
            return "keep-alive"


async def add_pieces(control: Control, lease: Lease, *numbers: int, text: str = "text") -> None:
    pieces = [OutputPiece(lease.ref, number, text) for number in numbers]
    async with control.transactions.begin() as transaction:
        await transaction.pieces.add(pieces)


async def beat(control: Control, lease: LeaseRef, progress: int, message: str = "") -> None:
    async with control.transactions.begin() as transaction:
        await transaction.leases.extend([Heartbeat(lease, progress, message)])


async def a_streamed_job(control: Control) -> JobId:
    """A job whose first attempt fails after three pieces, and whose second succeeds with two."""
    lease = await storage.a_lease(control.transactions)
    await add_pieces(control, lease, 1, 2, 3)
    await storage.end_attempt(control.transactions, lease.ref, FAILED)
    lease = await storage.a_lease(control.transactions, job_id=lease.ref.job_id, attempt=2)
    await add_pieces(control, lease, 1)
    await add_pieces(control, lease, 2)
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
    return lease.ref.job_id


WHOLE_STORY = [
    "created 0",
    "started 1",
    "piece 1.1",
    "piece 1.2",
    "piece 1.3",
    "attempt_ended 1",
    "retry_scheduled 1",
    "started 2",
    "output_reset 2",
    "piece 2.1",
    "piece 2.2",
    "succeeded 2",
    "ended FINISHED",
]


async def test_a_job_that_ended_long_ago_tells_its_whole_story_and_ends(control: Control) -> None:
    made = await a_streamed_job(control)
    messages = await until_ended(control.watch(made))
    assert told(messages) == WHOLE_STORY
    numbers = [each.event.number for each in messages if each.HasField("event")]
    assert numbers == list(range(1, 8))


async def test_every_cursor_resumes_right_behind_its_message(control: Control) -> None:
    made = await a_streamed_job(control)
    messages = await until_ended(control.watch(made))
    for index, message in enumerate(messages):
        resumed = await until_ended(control.watch(made, cursor=message.cursor))
        assert told(resumed) == WHOLE_STORY[index + 1 :] or index == len(messages) - 1
        assert resumed[-1].cursor == messages[-1].cursor


async def test_a_number_resumes_behind_its_event_with_the_pieces_of_the_running_attempt(
    control: Control,
) -> None:
    made = await a_streamed_job(control)
    behind = {1: 1, 2: 2, 3: 6, 4: 7, 5: 8, 6: 9, 7: 12}
    for number, start in behind.items():
        messages = await until_ended(control.watch(made, after_event_number=number))
        assert told(messages) == WHOLE_STORY[start:]


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED])
async def test_other_ends_are_told_too(control: Control, state: JobState) -> None:
    made = await storage.job_in(control.transactions, state)
    messages = await until_ended(control.watch(made))
    assert told(messages) == [
        "created 0",
        "started 1",
        "attempt_ended 1",
        f"{state.lower()} 1",
        "ended FINISHED",
    ]
    if state is JobState.FAILED:
        assert messages[3].event.error.code == "INPUT_BROKEN"


async def test_a_live_watch_tells_events_progress_and_pieces_as_they_come(
    control: Control, redis_url: str, redis_prefix: str
) -> None:
    job = await control.create()
    watch = control.watch(job.job_id)
    assert _told(await next_of(watch)) == "created 0"
    lease = await storage.a_lease(control.transactions, job_id=JobId(UUID(job.job_id)))
    assert _told(await next_of(watch)) == "started 1"
    await add_pieces(control, lease, 1)
    async with open_redis(redis_url) as redis:
        await WakeUps(redis, prefix=redis_prefix).jobs_changed([lease.ref.job_id])
    assert _told(await next_of(watch)) == "piece 1.1"
    await beat(control, lease.ref, 40, "page 2")
    message = await next_of(watch)
    assert message.progress == pb.JobProgress(attempt=1, progress=40, progress_message="page 2")
    await control.stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))
    assert _told(await next_of(watch)) == "cancel_requested 1"
    async with control.transactions.begin() as transaction:
        await transaction.leases.record_cancels_seen([lease.ref])
    assert _told(await next_of(watch)) == "cancel_seen 1"
    await storage.end_attempt(control.transactions, lease.ref, AttemptEnd(AttemptOutcome.CANCELLED))
    assert [_told(await next_of(watch)) for _ in range(3)] == [
        "attempt_ended 1",
        "cancelled 1",
        "ended FINISHED",
    ]
    assert await watch.read() is grpc.aio.EOF


async def test_a_hint_makes_a_watch_quicker_than_the_poll(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with control_running(
        database_url, redis_url, redis_prefix, watch={"poll_seconds": 3600.0}
    ) as control:
        job = await control.create()
        watch = control.watch(job.job_id)
        assert _told(await next_of(watch)) == "created 0"
        await control.stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))
        assert _told(await next_of(watch)) == "cancelled 0"


async def test_of_quick_progress_the_latest_is_told_and_the_same_is_not_told_twice(
    control: Control,
) -> None:
    lease = await storage.a_lease(control.transactions)
    watch = control.watch(lease.ref.job_id)
    assert [_told(await next_of(watch)) for _ in range(2)] == ["created 0", "started 1"]
    for progress in range(1, 91):
        await beat(control, lease.ref, progress)
    values = list[int]()
    while not values or values[-1] != 90:
        values.append((await next_of(watch)).progress.progress)
    assert values == sorted(set(values))
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
    assert [_told(await next_of(watch)) for _ in range(2)] == ["succeeded 1", "ended FINISHED"]


async def test_a_new_watcher_of_a_running_attempt_hears_its_progress(control: Control) -> None:
    lease = await storage.a_lease(control.transactions)
    await beat(control, lease.ref, 30)
    watch = control.watch(lease.ref.job_id, after_event_number=2)
    assert _told(await next_of(watch)) == "30 %"
    watch.cancel()


async def test_a_quiet_watch_says_that_it_lives(database_url: str, redis_url: str, redis_prefix: str) -> None:
    async with control_running(
        database_url, redis_url, redis_prefix, watch={"keep_alive_seconds": 0.05}
    ) as control:
        job = await control.create()
        watch = control.watch(job.job_id)
        first = await next_of(watch)
        while _told(first) == "keep-alive":
            first = await next_of(watch)
        for _ in range(3):
            message = await next_of(watch)
            assert _told(message) == "keep-alive"
            assert message.cursor == first.cursor
        watch.cancel()


async def test_watchers_who_stand_apart_each_get_everything_once(control: Control) -> None:
    lease = await storage.a_lease(control.transactions)
    await add_pieces(control, lease, *range(1, 501))
    watches = [control.watch(lease.ref.job_id) for _ in range(3)]
    cursor = ""
    while not cursor:
        message = await next_of(watches[0])
        if _told(message) == "piece 1.250":
            cursor = message.cursor
    watches += [control.watch(lease.ref.job_id, cursor=cursor) for _ in range(2)]
    ending = asyncio.create_task(
        end_with_pieces(control, lease, range(501, 601)), name="the rest of the attempt"
    )
    stories = await asyncio.gather(*(rest_of(each) for each in watches))
    await ending
    whole = ["created 0", "started 1", *(f"piece 1.{n}" for n in range(1, 601)), "succeeded 1"]
    whole.append("ended FINISHED")
    assert stories[0] == whole[whole.index("piece 1.251") :]
    assert stories[1] == stories[2] == whole
    assert stories[3] == stories[4] == stories[0]


async def end_with_pieces(control: Control, lease: Lease, numbers: range) -> None:
    for number in numbers:
        await add_pieces(control, lease, number)
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)


async def rest_of(watch: Any) -> list[str]:
    messages = list[pb.WatchJobResponse]()
    while not (messages and messages[-1].HasField("ended")):
        messages.append(await next_of(watch))
    return told(messages)


async def test_many_attempts_are_told_in_order_whatever_falls_between_reads(control: Control) -> None:
    job_id = await storage.a_job(control.transactions)
    watch = control.watch(job_id)
    expected = ["created 0"]

    async def run_attempts() -> None:
        for attempt in range(1, 4):
            lease = await storage.a_lease(control.transactions, job_id=job_id, attempt=attempt)
            expected.append(f"started {attempt}")
            if attempt > 1:
                expected.append(f"output_reset {attempt}")
            for number in range(1, 81):
                await add_pieces(control, lease, number)
                expected.append(f"piece {attempt}.{number}")
                async with control.transactions.begin() as transaction:
                    await transaction.jobs.get(job_id)
            last = attempt == 3
            await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED if last else FAILED)
            ended = [f"attempt_ended {attempt}", f"retry_scheduled {attempt}"]
            expected.extend(["succeeded 3"] if last else ended)

    running = asyncio.create_task(run_attempts())
    seen = await rest_of(watch)
    await running
    assert seen == [*expected, "ended FINISHED"]
    assert told(await until_ended(control.watch(job_id))) == seen


async def test_a_watcher_that_does_not_read_is_ended_and_resumes_without_gap_or_repeat(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    watching = {"slow_seconds": 0.2, "poll_seconds": 0.02, "keep_alive_seconds": 0.05}
    with structlog.testing.capture_logs() as lines:
        async with control_running(database_url, redis_url, redis_prefix, watch=watching) as control:
            await watch_slowly(control, lines)


async def watch_slowly(control: Control, lines: Sequence[Mapping[str, Any]]) -> None:
    lease = await storage.a_lease(control.transactions)
    for start in range(1, 401, 50):
        await add_pieces(control, lease, *range(start, start + 50), text="a" * 60_000)
    watch = control.watch(lease.ref.job_id)
    assert _told(await next_of(watch)) == "created 0"
    ticking = control.watch((await control.create()).job_id)
    while not any(each["event"] == "watch.too_slow" for each in lines):
        await next_of(ticking)
    ticking.cancel()
    messages = list[pb.WatchJobResponse]()
    while not (messages and messages[-1].HasField("ended")):
        messages.append(await next_of(watch))
    assert _told(messages[-1]) == "ended SLOW"
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
    rest = await rest_of(control.watch(lease.ref.job_id, cursor=messages[-1].cursor))
    numbered = [each for each in [*told(messages), *rest] if each.startswith("piece")]
    assert numbered == [f"piece 1.{n}" for n in range(1, 401)]


async def test_a_stopping_service_tells_its_watchers_to_go_elsewhere(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with AsyncExitStack() as outlasting:
        async with control_running(database_url, redis_url, redis_prefix) as control:
            channel = await outlasting.enter_async_context(grpc.aio.insecure_channel(control.opened.address))
            job = await control.create()
            request = pb.WatchJobRequest(job_id=job.job_id)
            watches = [job_control_pb2_grpc.JobControlStub(channel).WatchJob(request) for _ in range(3)]
            for watch in watches:
                assert _told(await next_of(watch)) == "created 0"
        for watch in watches:
            assert await rest_of(watch) == ["ended DRAINING"]
            assert await watch.code() is grpc.StatusCode.OK


async def test_a_watcher_that_goes_away_is_forgotten(control: Control) -> None:
    job = await control.create()
    for _ in range(50):
        watch = control.watch(job.job_id)
        assert _told(await next_of(watch)) == "created 0"
        watch.cancel()
    await control.stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))
    assert told(await until_ended(control.watch(job.job_id)))[-1] == "ended FINISHED"


async def test_a_cursor_that_is_none_of_this_job_is_refused(control: Control) -> None:
    job, other = await control.create(), await control.create()
    watch = control.watch(other.job_id)
    foreign = (await next_of(watch)).cursor
    watch.cancel()
    for cursor in (foreign, "nonsense", "é", "A" * 5_000, foreign[:-2]):
        refusal = await refused(control.watch(job.job_id, cursor=cursor))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["cursor"])
    for number in (2, 2**31, 2**64 - 1):
        refusal = await refused(control.watch(job.job_id, after_event_number=number))
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["after_event_number"])
