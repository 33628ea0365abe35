"""Requests for the feed of events to what is asked, and its events to messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from job_api.operations import event_cursors
from job_api.operations.event_watching import FeedEvent
from job_api.operations.list_events import FeedPage
from job_api.operations.subscriptions import EndReason, KeepAlive
from job_api.operations.watch_events import WatchedFeed
from job_api.rpc.fields import Fields
from job_api.rpc.messages import timestamp
from job_api.rpc.watch_messages import END_REASONS
from shared.domain.events import OutboxEventType
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2

EVENT_TYPES = frozenset[str](OutboxEventType) - {OutboxEventType.JOB_DISPATCH} | {
    "usage.recorded",
    "model.fallback",
}
"""What the contract names: also those that no job of this version emits, so that one can wait for them."""
EVENT_TYPES_MAX = 32
"""Far more than there are."""


def event_types(fields: Fields, names: Sequence[str]) -> frozenset[str]:
    if len(names) > EVENT_TYPES_MAX:
        fields.refuse("event_types", f"has more than {EVENT_TYPES_MAX} entries")
        return frozenset()
    for index, name in enumerate(names):
        if name not in EVENT_TYPES:
            fields.refuse(f"event_types[{index}]", "is not a type of events for other services")
    return frozenset(names)


def feed_event(event: FeedEvent, *, cursor: str) -> operation_pb2.FeedEvent:
    return operation_pb2.FeedEvent(
        event_type=event.event_type,
        aggregate_type=event.aggregate_type,
        aggregate_id=str(event.aggregate_id),
        dedupe_key=event.dedupe_key,
        payload=event.payload.encode(),
        event_time=timestamp(event.event_time),
        cursor=cursor,
    )


def feed_page(page: FeedPage) -> pb.ListEventsResponse:
    return pb.ListEventsResponse(
        events=[feed_event(each, cursor=event_cursors.seal(each.number)) for each in page.events],
        next_cursor=page.next_cursor,
    )


def watched_feed(watched: WatchedFeed) -> pb.WatchEventsResponse:
    message = pb.WatchEventsResponse(cursor=watched.cursor)
    match watched.update:
        case FeedEvent() as event:
            message.event.CopyFrom(feed_event(event, cursor=watched.cursor))
        case KeepAlive():
            message.keep_alive.SetInParent()
        case EndReason() as reason:
            message.ended.reason = END_REASONS[reason]
        case _:
            assert_never(watched.update)
    return message
