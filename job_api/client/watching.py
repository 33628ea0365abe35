"""Where a watch stands, over as many streams as it takes; without I/O, for both clients.

A stream that ends without a last word has broken, and so has one that the peer reset. The next one starts
after the last cursor that came, so a caller gets every event and piece once and in order, whatever happens
to connections and replicas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from job_api.client.failures import CallFailed, failure_of
from job_api.client.tries import closed, pause, require_span
from shared.gen.baton.v1 import job_control_pb2 as pb

View = TypeVar("View")

PATIENCE = timedelta(seconds=60)
"""How long a watch tries to go on without getting a message: longer than a restart or a failover."""

STREAM_SECONDS_MAX = 300.0
"""A stream is asked for anew so often, in case that one stays deaf though its connection lives."""

_BROKEN = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED}
)
_RESET = "RST_STREAM"
"""gRPC gives several statuses to a stream that was reset; this word is in the message of each."""


class TimeOver(CallFailed):
    """The caller's time for a watch is over; what was watched goes on."""

    def __init__(self) -> None:
        super().__init__("DEADLINE_EXCEEDED", "the end was not reached in time; what was watched goes on")


@dataclass(frozen=True, slots=True)
class Stream(Generic[View]):
    """A stream that can be asked for again.

    Attributes:
        method: Its name in the contract.
        request: For the first time.
        behind: Makes the request for what comes behind a cursor.
        read: Makes a view of a message; None of one that only keeps the stream alive, or ends it.
        seconds_max: It is asked for anew so often.
    """

    method: str
    request: Message
    behind: Callable[[str], Message]
    read: Callable[[Any], View | None]
    seconds_max: float = STREAM_SECONDS_MAX


class Watch(Generic[View]):
    """A watch up to its last word, if there is ever one; to be used once.

    Whoever does the I/O calls `method` with `request` for `stream_seconds`, hands each message to `take`, and
    asks `wait_after` when the stream has ended before `finished`.

    Attributes:
        request: For the next stream.
        finished: The service has said that all was sent.
    """

    def __init__(self, stream: Stream[View], within: timedelta | None, *, now: float) -> None:
        require_span("within", within)
        self.method = stream.method
        self.request = stream.request
        self._stream = stream
        self.finished = False
        self._deadline = math.inf if within is None else now + within.total_seconds()
        self._failures = 0
        self._broken_since: float | None = None

    def stream_seconds(self, now: float) -> float:
        """Return how long the next stream may last."""
        return min(self._stream.seconds_max, self._deadline - now)

    def take(self, message: Any) -> View | None:
        """Note a message; return what the caller should know of it, if anything."""
        if cursor := getattr(message, "cursor", ""):  # a live view has none
            self.request = self._stream.behind(cursor)
        if message.HasField("ended"):
            self.finished = message.ended.reason == pb.WATCH_END_REASON_FINISHED
        else:
            self._failures, self._broken_since = 0, None
        return self._stream.read(message)

    def wait_after(
        self, error: grpc.RpcError | None, *, now: float, uniform: float, is_closed: bool
    ) -> float:
        """Return how many seconds to wait before the next stream.

        Args:
            error: How the last stream ended; None if with OK, though without a last word.

        Raises:
            BatonError: What the service said, by its reason.
            TimeOver: The next stream would begin too late.
            CallFailed: Nothing came for `PATIENCE`, the client was closed, or the call can't be repaired by
                asking again.
        """
        if is_closed:
            raise closed() from error
        if error is not None and not _is_broken(error):
            raise failure_of(error) from error
        self._failures += 1
        self._broken_since = now if self._broken_since is None else self._broken_since
        if now - self._broken_since > PATIENCE.total_seconds():
            raise _given_up(error) from error
        wait = pause(self._failures, uniform)
        if now + wait >= self._deadline:
            raise TimeOver from error
        return wait


def _is_broken(error: grpc.RpcError) -> bool:
    return error.code() in _BROKEN or _RESET in (error.details() or "")


def _given_up(error: grpc.RpcError | None) -> Exception:
    if error is not None:
        return failure_of(error)
    return CallFailed("UNAVAILABLE", "the service keeps ending the watch before its end")
