"""The feed of events, as callers list and watch it."""

from __future__ import annotations

import asyncio
from typing import Any

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2
from tests.support.control_service import Control
from tests.support.watches import PATIENCE_SECONDS


async def listed(control: Control, **fields: Any) -> pb.ListEventsResponse:
    response: pb.ListEventsResponse = await control.stub.ListEvents(pb.ListEventsRequest(**fields))
    return response


async def all_listed(control: Control, *, at_least: int) -> list[operation_pb2.FeedEvent]:
    """The feed, once it has so many events."""

    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(events := (await listed(control, page_size=1_000)).events) < at_least:
            pass
    return list(events)


def watching(control: Control, **fields: Any) -> Any:
    return control.stub.WatchEvents(pb.WatchEventsRequest(**fields))


async def next_of(watch: Any) -> pb.WatchEventsResponse:
    async with asyncio.timeout(PATIENCE_SECONDS):
        message: pb.WatchEventsResponse = await watch.read()
    return message


async def next_events(watch: Any, count: int) -> list[operation_pb2.FeedEvent]:
    """The next events of a watch, each with the cursor of its message."""
    events = list[operation_pb2.FeedEvent]()
    while len(events) < count:
        message = await next_of(watch)
        if message.HasField("event"):
            assert message.cursor == message.event.cursor
            events.append(message.event)
    return events
