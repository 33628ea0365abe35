"""The copy of outgoing events for other services. Postgres keeps the events; this is for reading along."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from shared.domain.errors import PlatformUnavailable
from shared.streams import scripts
from shared.streams.scripts import Script, ScriptCall

log = structlog.get_logger(__name__)

EVENTS_KEPT = 100_000
"""About so many events stay in the copy, some 50 MB of Redis at most."""

EVENTS_KEPT_FOR = timedelta(days=7)
"""About so long; a reader that was away for longer reads Postgres."""

_COPY = Script("event_copy")


class Event(Protocol):
    """What is copied: no input, no output, no owner; the payload is JSON text."""

    @property
    def event_type(self) -> str: ...
    @property
    def dedupe_key(self) -> str: ...
    @property
    def payload(self) -> str: ...
    @property
    def create_time(self) -> datetime: ...


class EventCopy:
    """One stream, the only one that is trimmed.

    Fields: event_type, dedupe_key, create_time (RFC 3339), payload (JSON).
    """

    def __init__(self, redis: Redis, *, prefix: str) -> None:
        self._redis = redis
        self._key = f"{prefix}events"

    async def append(self, events: Sequence[Event]) -> None:
        """Append the events, in order; not idempotent, so readers tell repeats by the dedupe key.

        Raises:
            PlatformUnavailable: Redis is away, or the key of the copy holds something else, which says
                nothing about any event; the events may or may not be there.
        """
        if not events:
            return
        arguments: list[str | int] = [EVENTS_KEPT, EVENTS_KEPT_FOR // timedelta(milliseconds=1)]
        for each in events:
            arguments += [each.event_type, each.dedupe_key, each.create_time.isoformat(), each.payload]
        try:
            await scripts.run(self._redis, [ScriptCall(_COPY, [self._key], arguments)])
        except ResponseError as error:
            log.error("event_copy.unusable", error=str(error))
            raise PlatformUnavailable("redis") from error
