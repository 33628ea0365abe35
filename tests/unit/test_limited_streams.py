"""A stream of a limited type is left alone for a moment once claims get nothing of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from job_worker.sessions.lease_plan import WantedStream
from job_worker.sessions.limited_streams import REST, LimitedStreams
from shared.domain.identity import JobType, QueueName, StreamName
from tests.support.manual_clock import ManualClock

LIMITED, URGENT = StreamName("drill:limited:1.1:2"), StreamName("drill:limited:1.1:0")
FREE = StreamName("drill:free:1.1:2")


def names(streams: LimitedStreams) -> set[StreamName]:
    wanted = [WantedStream(each, QueueName("drill"), ()) for each in (LIMITED, URGENT, FREE)]
    return {each.name for each in streams.ready(wanted)}


async def test_a_limited_stream_rests_once_two_claims_got_nothing_of_it_and_comes_back() -> None:
    clock = ManualClock()
    ended = asyncio.Event()
    streams = LimitedStreams([JobType("limited")], clock, wake=ended)

    streams.claimed({LIMITED, URGENT, FREE}, {URGENT})
    assert names(streams) == {LIMITED, URGENT, FREE}
    streams.claimed({LIMITED, URGENT, FREE}, {URGENT})

    assert names(streams) == {URGENT, FREE}
    await clock.advance(REST - timedelta(milliseconds=1))
    assert names(streams) == {URGENT, FREE}
    await clock.advance(timedelta(milliseconds=2))
    assert names(streams) == {LIMITED, URGENT, FREE}
    await asyncio.wait_for(ended.wait(), timeout=10)


async def test_a_stream_that_gave_something_meanwhile_does_not_rest() -> None:
    streams = LimitedStreams([JobType("limited")], ManualClock(), wake=asyncio.Event())

    for granted in ((), (LIMITED,), (), (LIMITED,)):
        streams.claimed({LIMITED}, granted)
        assert names(streams) == {LIMITED, URGENT, FREE}


async def test_streams_of_types_without_limits_never_rest() -> None:
    ended = asyncio.Event()
    streams = LimitedStreams([], ManualClock(), wake=ended)

    for _ in range(2):
        streams.claimed({LIMITED, FREE}, set())

    assert names(streams) == {LIMITED, URGENT, FREE}
    assert not ended.is_set()
