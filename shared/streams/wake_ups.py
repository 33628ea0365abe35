"""Wake-ups: hints that something may be worth a look, sent after the commit that made it so.

A hint promises nothing and may be lost; whoever waits for one also polls, slowly. So no caller whose work is
committed ever fails because of a hint.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self
from uuid import UUID

import structlog
from google.protobuf.message import DecodeError, Message
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError, RedisError

from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import BatchId, JobId, StreamName
from shared.gen.baton.internal.v1 import streams_pb2
from shared.runtime.clock import Clock, SystemClock
from shared.runtime.loops import Backoff
from shared.streams.channels import Channel, channel_name
from shared.streams.connection import translated

log = structlog.get_logger(__name__)

SILENCE = timedelta(seconds=10)
"""A subscription that has heard nothing for this long asks the server whether it is still there, and takes it
for gone after as long again."""

CONFIRM_SECONDS = 2.0
"""A server that does not confirm a subscription within this time is away."""

HELD_UP_SECONDS = 0.5
"""A server that fails a hint only after this long hangs; one that refuses it does so at once."""

QUIET = timedelta(seconds=5)
"""No hint is tried for so long once one was held up: a call with many of them waits for a server that hangs
no longer than a call with one."""

IDS_PER_HINT_MAX = 1_000
"""Keeps a hint below 20 KiB."""


@dataclass(frozen=True, slots=True)
class StreamsFilled:
    """Lease streams have new entries."""

    streams: frozenset[StreamName]


@dataclass(frozen=True, slots=True)
class JobsChanged:
    """Jobs have news for their watchers."""

    job_ids: frozenset[JobId]


@dataclass(frozen=True, slots=True)
class BatchesChanged:
    """Callers have changed batches."""

    batch_ids: frozenset[BatchId]


@dataclass(frozen=True, slots=True)
class CancelsRequested:
    """Leased jobs are to be cancelled."""

    job_ids: frozenset[JobId]


Hint = StreamsFilled | JobsChanged | BatchesChanged | CancelsRequested


class WakeUps:
    """Sends hints, and listens to them."""

    def __init__(self, redis: Redis, *, prefix: str, clock: Clock | None = None) -> None:
        self._redis = redis
        self._prefix = prefix
        self._clock = clock or SystemClock()
        self._quiet_until = -math.inf

    async def jobs_changed(self, job_ids: Collection[JobId]) -> None:
        """Hint that jobs have news; never fails because Redis is away."""
        for part in _parts(job_ids):
            message = streams_pb2.JobsChanged(job_ids=part)
            await self._publish(Channel.JOBS_CHANGED, message)

    async def batches_changed(self, batch_ids: Collection[BatchId]) -> None:
        """Hint that batches have news; never fails because Redis is away."""
        for part in _parts(batch_ids):
            message = streams_pb2.BatchesChanged(batch_ids=part)
            await self._publish(Channel.BATCHES_CHANGED, message)

    async def cancels_requested(self, job_ids: Collection[JobId]) -> None:
        """Hint that leased jobs are to be cancelled; never fails because Redis is away."""
        for part in _parts(job_ids):
            message = streams_pb2.CancelsRequested(job_ids=part)
            await self._publish(Channel.CANCELS_REQUESTED, message)

    def listen(
        self,
        *channels: Channel,
        silence: timedelta = SILENCE,
        heeded: Callable[[], bool] = lambda: True,
    ) -> Hints:
        """Return the hints of these channels from when it is entered on; see `Hints`.

        Args:
            heeded: Whether anybody is interested just now; if not, a hint is not even read.
        """
        names = {channel_name(self._prefix, each).encode(): each for each in channels}
        return Hints(self._redis, names, silence=silence, heeded=heeded, clock=SystemClock())

    async def _publish(self, channel: Channel, message: Message) -> None:
        began = self._clock.monotonic()
        if began < self._quiet_until:
            return
        try:
            with translated():
                await self._redis.publish(channel_name(self._prefix, channel), message.SerializeToString())
        except PlatformUnavailable as error:
            log.warning("wake_up.lost", channel=channel, error=repr(error.__cause__))
            if (now := self._clock.monotonic()) - began > HELD_UP_SECONDS:
                self._quiet_until = now + QUIET.total_seconds()


class Hints:
    """An endless iterator of hints, with a connection of its own; to be used as `async with`.

    It outlives Redis: while Redis is away it waits and subscribes again. What was said meanwhile is lost.
    """

    def __init__(
        self,
        redis: Redis,
        channels: Mapping[bytes, Channel],
        *,
        silence: timedelta,
        heeded: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._redis = redis
        self._channels = channels
        self._silence = silence
        self._heeded = heeded
        self._clock = clock
        self._backoff = Backoff()
        self._failures = 0
        self._subscription: PubSub | None = None
        self._asked = False

    async def __aenter__(self) -> Self:
        """Subscribe; if Redis is away, that is tried again while iterating."""
        await self._attempted()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Hint:
        hint = None
        while hint is None:
            hint = await self._attempted()
        return hint

    async def _attempted(self) -> Hint | None:
        """Subscribe, or else wait for a message; after a failure close, and wait before the next attempt."""
        try:
            if self._subscription is None:
                await self._subscribe()
                return None
            return await self._read(self._subscription)
        except (RedisError, OSError) as error:
            self._failures += 1
            wait = self._backoff.delay(self._failures, uniform=random.random())
            log.warning(
                "hints.unheard", failures=self._failures, wait_s=wait.total_seconds(), error=repr(error)
            )
            await self._close()
            await self._clock.sleep(wait)
            return None

    async def _subscribe(self) -> None:
        """Return once the server has confirmed every channel, so that nothing said later is missed."""
        self._subscription = self._redis.pubsub()
        await self._subscription.subscribe(*self._channels)
        for _ in self._channels:
            if await self._subscription.get_message(timeout=CONFIRM_SECONDS) is None:
                raise ConnectionError("the subscription was not confirmed")
        if self._failures:
            log.info("hints.heard_again", failures=self._failures)
        self._failures = 0
        self._asked = False

    async def _read(self, subscription: PubSub) -> Hint | None:
        message = await subscription.get_message(timeout=self._silence.total_seconds())
        if message is None:
            if self._asked:
                raise ConnectionError("the server is silent")
            await subscription.ping()
            self._asked = True
            return None
        self._asked = False
        if message["type"] != "message" or not self._heeded():
            return None
        return _hint(self._channels[message["channel"]], message["data"])

    async def _close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.aclose()  # type: ignore[no-untyped-call]


def _hint(channel: Channel, data: bytes) -> Hint | None:
    try:
        match channel:
            case Channel.STREAMS_FILLED:
                names = streams_pb2.StreamsFilled.FromString(data).streams
                return StreamsFilled(frozenset(map(StreamName, names)))
            case Channel.JOBS_CHANGED:
                return JobsChanged(_job_ids(streams_pb2.JobsChanged.FromString(data).job_ids))
            case Channel.BATCHES_CHANGED:
                batch_ids = streams_pb2.BatchesChanged.FromString(data).batch_ids
                return BatchesChanged(frozenset(BatchId(UUID(bytes=each)) for each in batch_ids))
            case Channel.CANCELS_REQUESTED:
                return CancelsRequested(_job_ids(streams_pb2.CancelsRequested.FromString(data).job_ids))
    except (DecodeError, ValueError):
        log.warning("hint.unreadable", channel=channel)
        return None


def _job_ids(raw: Iterable[bytes]) -> frozenset[JobId]:
    return frozenset(JobId(UUID(bytes=each)) for each in raw)


def _parts(ids: Collection[JobId] | Collection[BatchId]) -> Iterable[list[bytes]]:
    raw = [each.bytes for each in ids]
    return (raw[start : start + IDS_PER_HINT_MAX] for start in range(0, len(raw), IDS_PER_HINT_MAX))
