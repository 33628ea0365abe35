"""What other services can ask of JobControl: the feed of events; see `asks`."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from job_api.client import convert
from job_api.client.asks import PAGE_SIZE_MAX, Ask, Listing, Page
from job_api.client.views import FeedEventView
from job_api.client.watching import Stream
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import operation_pb2


def list_events(*, cursor: str, event_types: Collection[str]) -> Listing[FeedEventView]:
    def page(token: str) -> Ask[Page[FeedEventView]]:
        request = pb.ListEventsRequest(
            cursor=token or cursor, page_size=PAGE_SIZE_MAX, event_types=event_types
        )
        return Ask("ListEvents", request, _page)

    return page


def watch_events(*, cursor: str, event_types: Collection[str]) -> Stream[FeedEventView]:
    def behind(cursor: str) -> pb.WatchEventsRequest:
        return pb.WatchEventsRequest(cursor=cursor, event_types=event_types)

    return Stream("WatchEvents", behind(cursor), behind, _told)


def feed_event_view(event: operation_pb2.FeedEvent) -> FeedEventView:
    return FeedEventView(
        event_type=event.event_type,
        aggregate_type=event.aggregate_type,
        aggregate_id=UUID(event.aggregate_id),
        dedupe_key=event.dedupe_key,
        payload=convert.json_value(event.payload),
        event_time=convert.time(event.event_time),
        cursor=event.cursor,
    )


def _page(told: pb.ListEventsResponse) -> Page[FeedEventView]:
    """The list ends where there is nothing newer yet."""
    return Page([*map(feed_event_view, told.events)], told.next_cursor if told.events else "")


def _told(message: pb.WatchEventsResponse) -> FeedEventView | None:
    return feed_event_view(message.event) if message.HasField("event") else None
