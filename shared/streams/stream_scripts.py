"""Runs scripts over lease streams: those of a queue together, and one whose key is unusable for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from redis.asyncio import Redis

from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import StreamName
from shared.streams import scripts
from shared.streams.connection import refuses_everyone
from shared.streams.scripts import Script, ScriptCall

log = structlog.get_logger(__name__)

Arguments = Callable[[Sequence[StreamName]], Iterable[str | bytes | int]]


@dataclass(frozen=True, slots=True)
class Replies:
    """What a script returned.

    Attributes:
        found: By stream, in the order of the queues.
        refused: Of each other stream, why Redis can't use its key: another program's value is there.
    """

    found: Mapping[StreamName, Any]
    refused: Mapping[StreamName, str]


class StreamScripts:
    """Each script takes the keys of one queue's streams, and returns a value or an error's text for each."""

    def __init__(self, redis: Redis, *, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix
        self._unusable = set[StreamName]()

    async def ask(
        self,
        script: Script,
        streams: Iterable[StreamName],
        arguments: Arguments,
        *,
        kinds: Sequence[str] = ("lease",),
    ) -> Replies:
        """Run a script for each queue, in one round trip.

        Args:
            kinds: The keys that a stream has in this script.

        Raises:
            PlatformUnavailable: Redis is away, or refuses everyone; some streams may have been served.
        """
        queues = _by_queue(streams)
        calls = [
            ScriptCall(
                script, [self._key(kind, each) for each in names for kind in kinds], list(arguments(names))
            )
            for names in queues
        ]
        found: dict[StreamName, Any] = {}
        refused: dict[StreamName, str] = {}
        for names, replies in zip(queues, await scripts.run(self._redis, calls), strict=True):
            for stream, reply in zip(names, replies, strict=True):
                if isinstance(reply, bytes):
                    refused[stream] = reply.decode(errors="replace")
                else:
                    found[stream] = reply
        if any(map(refuses_everyone, refused.values())):
            raise PlatformUnavailable("redis")
        self._tell(found, refused)
        return Replies(found, refused)

    def _tell(self, found: Iterable[StreamName], refused: Mapping[StreamName, str]) -> None:
        """Warn once of each stream that has become unusable: the loops ask many times a second."""
        self._unusable.difference_update(found)
        for stream, error in refused.items():
            if stream not in self._unusable:
                self._unusable.add(stream)
                log.error("lease_stream.unusable", stream=stream, error=error)

    def _key(self, kind: str, stream: StreamName) -> str:
        queue, _, rest = stream.partition(":")
        return f"{self._prefix}{kind}:{{{queue}}}:{rest}"


def _by_queue(streams: Iterable[StreamName]) -> list[list[StreamName]]:
    """Group streams that are in one slot, keeping their order."""
    queues: dict[str, list[StreamName]] = {}
    for stream in streams:
        queues.setdefault(stream.partition(":")[0], []).append(stream)
    return list(queues.values())
