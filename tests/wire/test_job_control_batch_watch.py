"""What watchers of a batch are told, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc
import structlog

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.jobs import JobError
from shared.gen.baton.v1 import batch_pb2, job_control_pb2_grpc
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import batch_wire
from tests.support.batch_wire import counted, next_change, next_update, rest_of, told, told_once
from tests.support.batches import FAILURE, SUCCESS
from tests.support.control_service import Control, control_running, refused

WORDY = AttemptEnd(AttemptOutcome.FAILED, JobError("INPUT_BROKEN", "no " * 3_000))
"""So long that a few thousand of them are more than connections hold."""
WHOLE_STORY = [
    "QUEUED 3/0/0/0/0",
    "RUNNING 2/1/0/0/0",
    "item 1 SUCCEEDED",
    "item 2 FAILED",
    "item 3 SUCCEEDED",
    "PARTIALLY_FAILED 0/0/2/1/0",
    "ended FINISHED",
]


async def a_settled_batch(control: Control) -> batch_pb2.Batch:
    """Three items, of which the second failed."""
    batch = await batch_wire.create(control, 3)
    await batch_wire.start(control, batch, 1)
    for item, end in ((1, SUCCESS), (2, FAILURE), (3, SUCCESS)):
        await batch_wire.end(control, batch, {item: end})
    return batch


def events(messages: Sequence[pb.WatchBatchResponse]) -> list[batch_pb2.BatchEvent]:
    return [each.event for each in messages if each.HasField("event")]


async def test_a_settled_batch_tells_its_whole_story_and_ends(control: Control) -> None:
    batch = await a_settled_batch(control)
    watch = batch_wire.watch(control, batch)
    messages = await rest_of(watch)

    assert told(messages) == WHOLE_STORY
    assert await watch.code() is grpc.StatusCode.OK
    seen = events(messages)
    assert [each.number for each in seen] == list(range(1, 7))
    assert [counted(each.counters) for each in seen] == [
        "3/0/0/0/0",
        "2/1/0/0/0",
        "2/0/1/0/0",
        "1/0/1/1/0",
        "0/0/2/1/0",
        "0/0/2/1/0",
    ]
    assert [each.error.code for each in seen] == ["", "", "", "INPUT_BROKEN", "", ""]
    assert all(each.batch_id == batch.batch_id and each.HasField("event_time") for each in seen)


async def test_every_cursor_and_every_number_resumes_right_behind_its_message(control: Control) -> None:
    batch = await a_settled_batch(control)
    messages = await rest_of(batch_wire.watch(control, batch))
    for index, message in enumerate(messages):
        resumed = await rest_of(batch_wire.watch(control, batch, cursor=message.cursor))
        assert told(resumed) == WHOLE_STORY[min(index + 1, 6) :]
        assert resumed[-1].cursor == messages[-1].cursor
    for number in range(7):
        resumed = await rest_of(batch_wire.watch(control, batch, after_event_number=number))
        assert told(resumed) == WHOLE_STORY[number:]


async def test_counters_that_change_without_an_event_are_told_as_they_are_now(control: Control) -> None:
    batch = await batch_wire.create(control, 4)
    watch = batch_wire.watch(control, batch)
    assert told_once(await next_update(watch)) == "QUEUED 4/0/0/0/0"
    await batch_wire.start(control, batch, 1)
    assert told_once(await next_update(watch)) == "RUNNING 3/1/0/0/0"
    first = await batch_wire.shown(control, batch)
    await batch_wire.start(control, batch, 2, 3)
    message = await next_update(watch)
    assert told_once(message) == "counters 1/3/0/0/0"
    resumed = batch_wire.watch(control, batch, cursor=message.cursor)
    assert told_once(await next_update(resumed)) == "counters 1/3/0/0/0"
    assert first.batch.last_event_number == 2
    await batch_wire.end(control, batch, {2: SUCCESS})
    for each in (watch, resumed):
        assert told_once(await next_update(each)) == "item 2 SUCCEEDED"
        each.cancel()


async def test_a_batch_that_is_tried_again_goes_on_behind_the_last_cursor(control: Control) -> None:
    batch = await a_settled_batch(control)
    first = await rest_of(batch_wire.watch(control, batch))
    await control.stub.RetryBatchItems(pb.RetryBatchItemsRequest(batch_id=batch.batch_id))
    watch = batch_wire.watch(control, batch, cursor=first[-1].cursor)
    assert told_once(await next_update(watch)) == "QUEUED 1/0/2/0/0"
    await batch_wire.end(control, batch, {2: SUCCESS})

    rest = told(await rest_of(watch))
    assert [each for each in rest if not each.startswith("counters")] == [
        "RUNNING 0/1/2/0/0",
        "item 2 SUCCEEDED",
        "AWAITING_REVIEW 0/0/3/0/0",
        "ended FINISHED",
    ]
    whole = await rest_of(batch_wire.watch(control, batch))
    assert [each.number for each in events(whole)] == list(range(1, 11))
    select = pb.SelectBatchItemsRequest(batch_id=batch.batch_id, items=[1])
    await control.stub.SelectBatchItems(select)
    later = await rest_of(batch_wire.watch(control, batch, cursor=whole[-1].cursor))
    assert told(later) == ["SELECTED 0/0/3/0/0", "ended FINISHED"]


async def test_what_a_caller_does_is_told_without_waiting_for_the_poll(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    slowly = {"poll_seconds": 3600.0}
    async with control_running(database_url, redis_url, redis_prefix, watch=slowly) as control:
        batch = await batch_wire.create(control, 3)
        watch = batch_wire.watch(control, batch)
        assert told_once(await next_update(watch)) == "QUEUED 3/0/0/0/0"
        await control.stub.CancelBatch(pb.CancelBatchRequest(batch_id=batch.batch_id))
        assert told(await rest_of(watch)) == [
            *(f"item {number} CANCELLED" for number in (1, 2, 3)),
            "CANCELLED 0/0/0/0/3",
            "ended FINISHED",
        ]


async def test_many_items_are_told_once_each_to_watchers_who_stand_apart(control: Control) -> None:
    batch = await batch_wire.create(control, 600)
    early = [batch_wire.watch(control, batch) for _ in range(3)]

    async def work() -> None:
        for first in range(1, 601, 60):
            ends = {item: FAILURE if item % 50 == 0 else SUCCESS for item in range(first, first + 60)}
            await batch_wire.end(control, batch, ends)

    working = asyncio.create_task(work())
    halfway = next(each.cursor for each in await some_of(early[0], 300) if each.event.number == 290)
    late = [batch_wire.watch(control, batch, cursor=halfway), batch_wire.watch(control, batch)]
    first = await rest_of(early[0])
    stories = await asyncio.gather(*(rest_of(each) for each in [*early[1:], *late]))
    await working
    numbers = [[each.number for each in events(story)] for story in stories]
    assert numbers[0] == numbers[1] == numbers[3] == list(range(1, 604))
    assert numbers[2] == list(range(291, 604))
    assert [each.number for each in events(first)] == list(range(events(first)[0].number, 604))
    for story in stories:
        assert told_once(story[-2]) == "PARTIALLY_FAILED 0/0/588/12/0"
        assert all(total(each) == 600 for each in story if total(each) is not None)
        ended = [each for each in map(total_ended, story) if each is not None]
        assert ended == sorted(ended)


async def some_of(watch: Any, number: int) -> list[pb.WatchBatchResponse]:
    """Messages of a watch, up to and with the event of this number."""
    messages = list[pb.WatchBatchResponse]()
    while not (messages and messages[-1].event.number == number):
        messages.append(await next_update(watch))
    return messages


def counters_in(message: pb.WatchBatchResponse) -> batch_pb2.BatchCounters | None:
    if message.HasField("event"):
        return message.event.counters
    return message.counters if message.HasField("counters") else None


def total(message: pb.WatchBatchResponse) -> int | None:
    counters = counters_in(message)
    return counters and sum(value for _, value in counters.ListFields())


def total_ended(message: pb.WatchBatchResponse) -> int | None:
    counters = counters_in(message)
    return counters and counters.succeeded + counters.failed + counters.skipped


async def test_a_quiet_watch_says_that_it_lives(database_url: str, redis_url: str, redis_prefix: str) -> None:
    watching = {"keep_alive_seconds": 0.05}
    async with control_running(database_url, redis_url, redis_prefix, watch=watching) as control:
        watch = batch_wire.watch(control, await batch_wire.create(control))
        first = await next_update(watch)
        while told_once(first) == "keep-alive":
            first = await next_update(watch)
        for _ in range(3):
            message = await next_update(watch)
            assert (told_once(message), message.cursor) == ("keep-alive", first.cursor)
        watch.cancel()


async def test_a_stopping_service_tells_its_watchers_to_go_elsewhere(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with AsyncExitStack() as outlasting:
        async with control_running(database_url, redis_url, redis_prefix) as control:
            channel = await outlasting.enter_async_context(grpc.aio.insecure_channel(control.opened.address))
            batch = await batch_wire.create(control)
            request = pb.WatchBatchRequest(batch_id=batch.batch_id)
            watch = job_control_pb2_grpc.JobControlStub(channel).WatchBatch(request)
            assert told_once(await next_update(watch)) == "QUEUED 3/0/0/0/0"
        assert told(await rest_of(watch)) == ["ended DRAINING"]
        assert await watch.code() is grpc.StatusCode.OK


async def test_a_watcher_that_does_not_read_is_ended_and_resumes_without_gap_or_repeat(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    watching = {"slow_seconds": 0.2, "poll_seconds": 0.02, "keep_alive_seconds": 0.05}
    with structlog.testing.capture_logs() as lines:
        async with control_running(database_url, redis_url, redis_prefix, watch=watching) as control:
            await watch_slowly(control, lines)


async def watch_slowly(control: Control, lines: Sequence[Mapping[str, Any]]) -> None:
    batch = await batch_wire.create(control, 2_500)
    watch = batch_wire.watch(control, batch)
    assert told_once(await next_change(watch)) == "QUEUED 2500/0/0/0/0"
    for first in range(1, 2_501, 500):
        await batch_wire.end(control, batch, dict.fromkeys(range(first, first + 500), WORDY))
    ticking = control.watch((await control.create()).job_id)
    while not any(each["event"] == "watch.too_slow" for each in lines):
        await next_update(ticking)
    ticking.cancel()
    (line,) = [each for each in lines if each["event"] == "watch.too_slow"]
    assert line["batch_id"] == batch.batch_id
    messages = await rest_of(watch)
    assert told_once(messages[-1]) == "ended SLOW"
    rest = await rest_of(batch_wire.watch(control, batch, cursor=messages[-1].cursor))
    assert told_once(rest[-1]) == "ended FINISHED"
    assert [each.number for each in events([*messages, *rest])] == list(range(2, 2_504))


async def test_a_cursor_that_is_none_of_this_batch_is_refused(control: Control) -> None:
    batch, other = await batch_wire.create(control), await batch_wire.create(control)
    job = await control.create()
    watches = [batch_wire.watch(control, other), control.watch(job.job_id)]
    foreign, of_a_job = [(await next_update(each)).cursor for each in watches]
    for each in watches:
        each.cancel()
    for cursor in (foreign, of_a_job, "nonsense", "é", "A" * 5_000, foreign[:-2]):
        refusal = await refused(batch_wire.watch(control, batch, cursor=cursor))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["cursor"])
    for number in (2, 2**31):
        refusal = await refused(batch_wire.watch(control, batch, after_event_number=number))
        assert (refusal.reason, refusal.fields) == ("INVALID_INPUT", ["after_event_number"])
