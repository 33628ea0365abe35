"""ListEvents and WatchEvents, as other services use them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc
import structlog

from shared.domain.jobs import JobState
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc, operation_pb2
from tests.support import storage
from tests.support.control_service import Control, control_running
from tests.support.feeds import all_listed, listed, next_events, next_of, watching
from tests.support.outgoing_events import emit_and_number, emit_many


async def test_what_jobs_end_as_is_listed_oldest_first_with_all_that_others_need(control: Control) -> None:
    ended = [await storage.job_in(control.transactions, state) for state in list(JobState)[2:]]
    await storage.a_job(control.transactions)

    events = await all_listed(control, at_least=3)

    assert [(each.event_type, each.aggregate_id) for each in events] == [
        ("job.succeeded", str(ended[0])),
        ("job.failed", str(ended[1])),
        ("job.cancelled", str(ended[2])),
    ]
    assert {each.aggregate_type for each in events} == {"job"}
    assert [each.dedupe_key for each in events] == [
        f"{each.event_type}:{each.aggregate_id}:1" for each in events
    ]
    assert json.loads(events[1].payload)["error_code"] == "INPUT_BROKEN"
    finished = [(await control.get(each)).finish_time for each in ended]
    assert [each.event_time for each in events] == finished


async def test_pages_lead_on_from_any_event_and_say_where_to_ask_when_there_is_nothing_newer(
    control: Control,
) -> None:
    empty = await listed(control)
    assert (list(empty.events), empty.next_cursor) == ([], "")
    job_id = await storage.a_job(control.transactions)
    await emit_and_number(control.transactions, job_id, *["usage.recorded"] * 5)
    events = await all_listed(control, at_least=5)

    found = list[operation_pb2.FeedEvent]()
    cursor = ""
    for size in (2, 2, 2):
        page = await listed(control, cursor=cursor, page_size=size)
        found += page.events
        cursor = page.next_cursor
    assert found == events
    for index, event in enumerate(events):
        assert list((await listed(control, cursor=event.cursor)).events) == events[index + 1 :]
    assert await listed(control, cursor=cursor) == pb.ListEventsResponse(next_cursor=cursor)
    await emit_and_number(control.transactions, job_id, "job.failed")
    await all_listed(control, at_least=6)
    assert [each.event_type for each in (await listed(control, cursor=cursor)).events] == ["job.failed"]


async def test_a_list_and_a_watch_of_some_types_get_these_alone(control: Control) -> None:
    job_id = await storage.a_job(control.transactions)
    types = ["job.failed", "usage.recorded", "usage.recorded", "batch.finished"]
    await emit_and_number(control.transactions, job_id, *types)
    await all_listed(control, at_least=4)
    wanted = ["batch.finished", "job.failed", "job.failed"]

    page = await listed(control, event_types=wanted)
    watch = watching(control, event_types=wanted)

    assert [each.event_type for each in page.events] == ["job.failed", "batch.finished"]
    assert await next_events(watch, 2) == list(page.events)
    watch.cancel()


async def test_a_watch_tells_what_was_and_what_comes_and_resumes_behind_any_message(control: Control) -> None:
    first = await storage.job_in(control.transactions, JobState.SUCCEEDED)
    watch, other = watching(control), watching(control)
    (was,) = await next_events(watch, 1)
    assert was.aggregate_id == str(first)
    second = await storage.job_in(control.transactions, JobState.FAILED)
    third = await storage.job_in(control.transactions, JobState.CANCELLED)
    came = await next_events(watch, 2)
    assert [each.aggregate_id for each in came] == [str(second), str(third)]
    assert await next_events(other, 3) == [was, *came]
    for event, rest in ((was, came), (came[0], came[1:])):
        resumed = watching(control, cursor=event.cursor)
        assert await next_events(resumed, len(rest)) == rest
        resumed.cancel()
    watch.cancel()
    other.cancel()


async def test_watchers_who_stand_apart_each_get_every_event_once(control: Control) -> None:
    job_id = await storage.a_job(control.transactions)
    await emit_many(control.transactions, job_id, 1, 1_300)
    events = await all_listed(control, at_least=1_000)
    cursors = ["", events[100].cursor, events[900].cursor, ""]
    watches = [watching(control, cursor=each) for each in cursors]
    adding = asyncio.create_task(emit_many(control.transactions, job_id, 1_301, 1_500))
    stories = await asyncio.gather(
        *(next_events(watch, 1_500 - start) for watch, start in zip(watches, (0, 101, 901, 0), strict=True))
    )
    await adding
    for story, start in zip(stories, (0, 101, 901, 0), strict=True):
        assert [json.loads(each.payload)["number"] for each in story] == list(range(start + 1, 1_501))
    for watch in watches:
        watch.cancel()


async def test_a_quiet_watch_says_that_it_lives_and_where_to_resume(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    quick = {"keep_alive_seconds": 0.05, "poll_seconds": 0.05}
    async with control_running(database_url, redis_url, redis_prefix, watch=quick) as control:
        job_id = await storage.a_job(control.transactions)
        watch = watching(control, event_types=["batch.finished"])
        assert (await next_of(watch)).HasField("keep_alive")
        await emit_and_number(control.transactions, job_id, "usage.recorded")
        message = await next_of(watch)
        while not message.cursor:
            message = await next_of(watch)
        assert message.HasField("keep_alive")
        (passed,) = await all_listed(control, at_least=1)
        assert message.cursor == passed.cursor
        watch.cancel()


async def test_a_watcher_that_does_not_read_is_ended_and_resumes_without_gap_or_repeat(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    impatient = {"slow_seconds": 0.2, "poll_seconds": 0.02, "keep_alive_seconds": 0.05}
    with structlog.testing.capture_logs() as lines:
        async with control_running(database_url, redis_url, redis_prefix, watch=impatient) as control:
            await watch_slowly(control, lines)


async def watch_slowly(control: Control, lines: Sequence[Mapping[str, Any]]) -> None:
    job_id = await storage.a_job(control.transactions)
    count = 3_000
    await emit_many(control.transactions, job_id, 1, count, padding=4_000)  # more than connections hold
    watch = watching(control)
    story = await next_events(watch, 1)
    ticking = watching(control, event_types=["batch.finished"])
    while not any(each["event"] == "feed_watch.too_slow" for each in lines):
        await next_of(ticking)
    ticking.cancel()
    story += await next_until_slow(watch)
    assert len(story) < count
    while len(story) < count:  # it may be too slow again
        resumed = watching(control, cursor=story[-1].cursor)
        story += await next_until_slow(resumed, most=count - len(story))
        resumed.cancel()
    assert [json.loads(each.payload)["number"] for each in story] == list(range(1, count + 1))


async def next_until_slow(watch: Any, *, most: int = 100_000) -> list[operation_pb2.FeedEvent]:
    """The next events of a watch until it is ended; the last one is where to resume."""
    story = list[operation_pb2.FeedEvent]()
    while len(story) < most:
        message = await next_of(watch)
        if message.HasField("ended"):
            assert message.ended.reason == pb.WATCH_END_REASON_SLOW
            assert not story or message.cursor == story[-1].cursor
            break
        if message.HasField("event"):
            story.append(message.event)
    return story


async def test_a_stopping_service_tells_who_watches_the_feed_to_go_elsewhere(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with AsyncExitStack() as outlasting:
        async with control_running(database_url, redis_url, redis_prefix) as control:
            channel = await outlasting.enter_async_context(grpc.aio.insecure_channel(control.opened.address))
            stub: Any = job_control_pb2_grpc.JobControlStub(channel)
            await storage.job_in(control.transactions, JobState.SUCCEEDED)
            watches = [stub.WatchEvents(pb.WatchEventsRequest()) for _ in range(3)]
            seen = [(await next_events(each, 1))[0] for each in watches]
        for watch, event in zip(watches, seen, strict=True):
            message = await next_of(watch)
            assert message.ended.reason == pb.WATCH_END_REASON_DRAINING
            assert message.cursor == event.cursor
            assert await watch.read() is grpc.aio.EOF
            assert await watch.code() is grpc.StatusCode.OK
