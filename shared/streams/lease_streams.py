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
from typing import Protocol
from uuid import UUID

import structlog
from google.protobuf.message import DecodeError
from redis.asyncio import Redis

from shared.domain.identity import JobId, JobType, QueueName, StreamName
from shared.gen.baton.internal.v1 import streams_pb2
from shared.streams.channels import Channel, channel_name
from shared.streams.scripts import Script
from shared.streams.stream_scripts import Replies, StreamScripts

log = structlog.get_logger(__name__)

GROUP = "workers"
"""The one consumer group of every lease stream."""

DEMAND_FRESH = timedelta(seconds=5)
"""What a worker told about its credits counts so long: several of its reports, so that one may be late."""

CONSUMER_KEPT = timedelta(hours=1)
"""A consumer without pending entries is forgotten after this; one that lives comes back by reading."""

UNREADABLE = "UNREADABLE"
"""The code of an attempt that no entry can be made of."""

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
        usable: False if its key holds something else; it is as good as missing until a person removes that.
    """

    length: int | None
    demand: int | None
    usable: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an attempt can't be put into its stream, whatever the state of Redis."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of a batch of attempts.

    Attributes:
        made_anew: Streams that were missing: whatever had been in them is gone.
        refused: Attempts that are in no stream, by their jobs.
    """

    made_anew: frozenset[StreamName]
    refused: Mapping[JobId, Refusal]


class LeaseStreams:
    """The commands on lease streams, each one round trip.

    All of them raise PlatformUnavailable if Redis is away; what was asked for may then have happened. A
    stream whose key holds something else stops none of the others.
    """

    def __init__(self, redis: Redis, *, prefix: str) -> None:
        self._scripts = StreamScripts(redis, prefix=prefix)
        self._filled_channel = channel_name(prefix, Channel.STREAMS_FILLED)

    async def append(self, attempts: Sequence[WaitingAttempt]) -> Appended:
        """Append an entry for each attempt, in order, and hint that the streams were filled.

        Not idempotent: an entry may be there twice afterwards, which the claim sorts out.
        """
        payloads: dict[StreamName, list[bytes]] = {}
        refused: dict[JobId, Refusal] = {}
        for each in attempts:
            try:
                payload = _payload(each)
            except (TypeError, ValueError) as error:
                refused[each.job_id] = Refusal(UNREADABLE, str(error))
            else:
                payloads.setdefault(each.stream, []).append(payload)
        replies = await self._scripts.ask(
            _APPEND,
            payloads,
            lambda names: [
                GROUP,
                self._filled_channel,
                _hint(names),
                *_counted(payloads[each] for each in names),
            ],
        )
        for each in attempts:
            if each.stream in replies.refused:
                refused[each.job_id] = _refusal(replies.refused[each.stream])
        made_anew = frozenset(stream for stream, missing in replies.found.items() if missing)
        return Appended(made_anew, refused)

    async def depths(self, streams: Iterable[StreamName]) -> Mapping[StreamName, Depth]:
        """Return how full each of the streams is."""
        replies = await self._scripts.ask(_DEPTHS, streams, lambda _: (), kinds=("lease", "demand"))
        found = {
            stream: Depth(_known(length), _known(demand))
            for stream, (length, demand) in replies.found.items()
        }
        return found | dict.fromkeys(replies.refused, Depth(None, None, usable=False))

    async def take(self, wanted: Sequence[tuple[StreamName, int]], consumer: str) -> list[Entry]:
        """Take new entries, in the order of `wanted`, and oldest first within a stream.

        Args:
            wanted: Streams, each once, with how many entries at most, at least 1. May be empty.
            consumer: Whose pending entries they become.

        Returns:
            May be empty. A missing stream has no entries and stays missing; a missing group is made anew.
        """
        room = dict(wanted)
        replies = await self._scripts.ask(
            _TAKE, room, lambda names: [GROUP, consumer, *(room[each] for each in names)]
        )
        entries = await self._entries(replies)
        return [entry for stream in room for entry in entries.get(stream, ())]

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
        arguments = (GROUP, consumer, _milliseconds(idle), limit, _milliseconds(CONSUMER_KEPT))
        replies = await self._scripts.ask(_TAKE_OVER, streams, lambda _: arguments)
        return [entry for found in (await self._entries(replies)).values() for entry in found]

    async def tell_demand(self, replica: str, demand: Mapping[StreamName, int]) -> None:
        """Tell how many leases a worker's executors could take from each stream; forgotten by itself.

        Args:
            demand: At least 0 each; a stream that executors serve but have no credits for has 0.
        """
        fresh = _milliseconds(DEMAND_FRESH)
        await self._scripts.ask(
            _TELL_DEMAND,
            demand,
            lambda names: [replica, fresh, *(demand[each] for each in names)],
            kinds=("demand",),
        )

    async def _settle(self, places: Iterable[tuple[StreamName, str]]) -> None:
        ids: dict[StreamName, list[str]] = {}
        for stream, entry_id in places:
            ids.setdefault(stream, []).append(entry_id)
        await self._scripts.ask(_SETTLE, ids, lambda names: [GROUP, *_counted(ids[each] for each in names)])

    async def _entries(self, replies: Replies) -> Mapping[StreamName, Sequence[Entry]]:
        """Read what scripts found; an entry that nobody can read is removed, or it would stay for ever."""
        entries: dict[StreamName, list[Entry]] = {}
        unreadable: list[tuple[StreamName, str]] = []
        for stream, found in replies.found.items():
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


def _payload(attempt: WaitingAttempt) -> bytes:
    if not (attempt.job_type and attempt.queue):
        raise ValueError("the attempt names no job type or no queue")
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


def _refusal(error: str) -> Refusal:
    return Refusal(error.partition(" ")[0], error)


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
