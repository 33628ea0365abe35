"""Lease streams: where executors' sessions look for attempts that may wait.

Postgres is the truth; an entry only says "look here", and the claim decides. So nothing here must be kept:
an entry that is there twice is refused once, and one that is gone is appended again by the sweep. The
streams are never trimmed, as that would drop what nobody has looked at yet; they are short because the
dispatcher fills them to a mark, and because entries leave once they are claimed.

All streams of a queue are in one slot (the queue's name is the hash tag), so one script serves them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

import structlog
from google.protobuf.message import DecodeError
from redis.asyncio import Redis

from shared.domain.identity import JobId, JobType, QueueName, StreamName
from shared.gen.baton.internal.v1 import streams_pb2
from shared.streams import scripts
from shared.streams.channels import Channel, channel_name
from shared.streams.scripts import Script, ScriptCall

log = structlog.get_logger(__name__)

GROUP = "workers"
"""The one consumer group of every lease stream."""

DEMAND_FRESH = timedelta(seconds=5)
"""What a worker told about its credits counts so long: several of its reports, so that one may be late."""

CONSUMER_KEPT = timedelta(hours=1)
"""A consumer without pending entries is forgotten after this; one that lives comes back by reading."""

_APPEND, _DEPTHS, _TAKE = Script("append"), Script("depths"), Script("take")
_SETTLE, _TAKE_OVER, _TELL_DEMAND = Script("settle"), Script("take_over"), Script("tell_demand")


class WaitingAttempt(Protocol):
    """What an entry is made from."""

    @property
    def stream(self) -> StreamName: ...
    @property
    def job_id(self) -> JobId: ...
    @property
    def job_type(self) -> JobType: ...
    @property
    def queue(self) -> QueueName: ...
    @property
    def priority(self) -> int: ...
    @property
    def attempt(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a lease stream, pending for the consumer that took it."""

    stream: StreamName
    entry_id: str
    job_id: JobId
    job_type: JobType
    queue: QueueName
    priority: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Depth:
    """How full a stream is.

    Attributes:
        length: Entries that are not settled; None if the stream is missing.
        demand: Leases that executors could take from it now; None if no worker told within `DEMAND_FRESH`.
    """

    length: int | None
    demand: int | None


class LeaseStreams:
    """The commands on lease streams, each one round trip.

    All of them raise PlatformUnavailable if Redis is away; what was asked for may then have happened.
    """

    def __init__(self, redis: Redis, *, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix

    async def append(self, attempts: Sequence[WaitingAttempt]) -> frozenset[StreamName]:
        """Append an entry for each attempt, in order, and hint that the streams were filled.

        Not idempotent: an entry may be there twice afterwards, which the claim sorts out.

        Returns:
            The streams that were missing and were made anew: whatever was in them is gone.
        """
        payloads: dict[StreamName, list[bytes]] = {}
        for each in attempts:
            payloads.setdefault(each.stream, []).append(_payload(each))
        queues = _by_queue(payloads)
        calls = [
            ScriptCall(
                _APPEND,
                [self._key("lease", stream) for stream in streams],
                [GROUP, self._filled_channel, _hint(streams), *_counted(payloads[each] for each in streams)],
            )
            for streams in queues
        ]
        made = await scripts.run(self._redis, calls)
        return frozenset(
            stream
            for streams, reply in zip(queues, made, strict=True)
            for stream, missing in zip(streams, reply, strict=True)
            if missing
        )

    async def depths(self, streams: Iterable[StreamName]) -> Mapping[StreamName, Depth]:
        """Return how full each of the streams is."""
        queues = _by_queue(streams)
        calls = [
            ScriptCall(_DEPTHS, [self._key(kind, each) for each in names for kind in ("lease", "demand")], [])
            for names in queues
        ]
        return {
            stream: Depth(_known(reply[2 * index]), _known(reply[2 * index + 1]))
            for names, reply in zip(queues, await scripts.run(self._redis, calls), strict=True)
            for index, stream in enumerate(names)
        }

    async def take(self, wanted: Sequence[tuple[StreamName, int]], consumer: str) -> list[Entry]:
        """Take new entries, in the order of `wanted`, and oldest first within a stream.

        Args:
            wanted: Streams, each once, with how many entries at most, at least 1. May be empty.
            consumer: Whose pending entries they become.

        Returns:
            May be empty. A missing stream has no entries and stays missing; a missing group is made anew.
        """
        room = dict(wanted)
        queues = _by_queue(room)
        calls = [
            ScriptCall(
                _TAKE,
                [self._key("lease", each) for each in streams],
                [GROUP, consumer, *(room[each] for each in streams)],
            )
            for streams in queues
        ]
        entries = await self._entries(queues, await scripts.run(self._redis, calls))
        return [entry for stream in room for entry in entries[stream]]

    async def settle(self, entries: Sequence[Entry]) -> None:
        """Acknowledge and delete entries; idempotent."""
        await self._settle((each.stream, each.entry_id) for each in entries)

    async def take_over(
        self, streams: Iterable[StreamName], consumer: str, *, idle: timedelta, limit: int
    ) -> list[Entry]:
        """Take entries that other consumers took and did not settle for `idle`, by Redis's clock.

        Says nothing about executors: only a lease's own heartbeats do.

        Args:
            limit: Of entries in each queue; at least 1.
        """
        queues = _by_queue(streams)
        arguments: list[str | bytes | int] = [
            GROUP,
            consumer,
            _milliseconds(idle),
            limit,
            _milliseconds(CONSUMER_KEPT),
        ]
        calls = [
            ScriptCall(_TAKE_OVER, [self._key("lease", each) for each in names], arguments)
            for names in queues
        ]
        entries = await self._entries(queues, await scripts.run(self._redis, calls))
        return [entry for names in queues for stream in names for entry in entries[stream]]

    async def tell_demand(self, replica: str, demand: Mapping[StreamName, int]) -> None:
        """Tell how many leases a worker's executors could take from each stream; forgotten by itself.

        Args:
            demand: At least 0 each; a stream that executors serve but have no credits for has 0.
        """
        queues = _by_queue(demand)
        calls = [
            ScriptCall(
                _TELL_DEMAND,
                [self._key("demand", each) for each in streams],
                [replica, _milliseconds(DEMAND_FRESH), *(demand[each] for each in streams)],
            )
            for streams in queues
        ]
        await scripts.run(self._redis, calls)

    async def _settle(self, places: Iterable[tuple[StreamName, str]]) -> None:
        ids: dict[StreamName, list[str]] = {}
        for stream, entry_id in places:
            ids.setdefault(stream, []).append(entry_id)
        calls = [
            ScriptCall(
                _SETTLE,
                [self._key("lease", each) for each in streams],
                [GROUP, *_counted(ids[each] for each in streams)],
            )
            for streams in _by_queue(ids)
        ]
        await scripts.run(self._redis, calls)

    async def _entries(
        self, queues: Sequence[Sequence[StreamName]], replies: Sequence[Any]
    ) -> Mapping[StreamName, Sequence[Entry]]:
        """Read what scripts found; an entry that nobody can read is removed, or it would stay for ever."""
        entries: dict[StreamName, list[Entry]] = {}
        unreadable: list[tuple[StreamName, str]] = []
        for streams, reply in zip(queues, replies, strict=True):
            for stream, found in zip(streams, reply, strict=True):
                entries[stream] = []
                for entry_id, payload in zip(found[::2], found[1::2], strict=True):
                    entry = _entry(stream, entry_id.decode(), payload)
                    if entry is None:
                        unreadable.append((stream, entry_id.decode()))
                    else:
                        entries[stream].append(entry)
        if unreadable:
            log.warning("lease_entry.unreadable", entries=unreadable)
            await self._settle(unreadable)
        return entries

    def _key(self, kind: str, stream: StreamName) -> str:
        queue, _, rest = stream.partition(":")
        return f"{self._prefix}{kind}:{{{queue}}}:{rest}"

    @property
    def _filled_channel(self) -> str:
        return channel_name(self._prefix, Channel.STREAMS_FILLED)


def _by_queue(streams: Iterable[StreamName]) -> list[list[StreamName]]:
    """Group streams that are in one slot, keeping their order."""
    queues: dict[str, list[StreamName]] = {}
    for stream in streams:
        queues.setdefault(stream.partition(":")[0], []).append(stream)
    return list(queues.values())


def _payload(attempt: WaitingAttempt) -> bytes:
    return streams_pb2.LeaseEntry(
        job_id=attempt.job_id.bytes,
        job_type=attempt.job_type,
        queue=attempt.queue,
        priority=attempt.priority,
        attempt=attempt.attempt,
    ).SerializeToString()


def _entry(stream: StreamName, entry_id: str, payload: bytes) -> Entry | None:
    try:
        message = streams_pb2.LeaseEntry.FromString(payload)
        job_id = JobId(UUID(bytes=message.job_id))
    except (DecodeError, ValueError):
        return None
    return Entry(
        stream,
        entry_id,
        job_id,
        JobType(message.job_type),
        QueueName(message.queue),
        message.priority,
        message.attempt,
    )


def _hint(streams: Sequence[StreamName]) -> bytes:
    return streams_pb2.StreamsFilled(streams=streams).SerializeToString()


def _counted(groups: Iterable[Sequence[str | bytes]]) -> Iterator[str | bytes | int]:
    for group in groups:
        yield len(group)
        yield from group


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
