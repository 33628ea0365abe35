"""Watching a job over as many streams as it takes.

A stream that ends without a last word has broken, and so has one that the peer reset. The next one starts
after the last cursor that came, so a caller gets every event and piece once and in order, whatever happens
to connections and replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import grpc

from job_api.client import convert
from job_api.client.calls import Calls
from job_api.client.failures import CallFailed, failure_of
from job_api.client.views import Update
from shared.gen.baton.v1 import job_control_pb2 as pb

PATIENCE = timedelta(seconds=60)
"""How long a watch tries to go on without getting a message: longer than a restart or a failover."""

STREAM_SECONDS_MAX = 300.0
"""A stream is asked for anew so often, in case that one stays deaf though its connection lives."""

_BROKEN = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED}
)
_RESET = "RST_STREAM"
"""gRPC gives several statuses to a stream that was reset; this word is in the message of each."""


class Watch:
    """An iterator over the updates of one job, up to its terminal event; to be used once."""

    def __init__(self, calls: Calls, request: pb.WatchJobRequest, *, is_closed: Callable[[], bool]) -> None:
        self._calls = calls
        self._request = request
        self._is_closed = is_closed
        self._finished = False
        self._failures = 0
        self._broken_since: float | None = None

    def updates(self) -> Iterator[Update]:
        """Yield updates until the service says that the terminal one was sent.

        Raises:
            BatonError: What the service said, by its reason.
            CallFailed: Nothing came for `PATIENCE`, or the call can't be repaired by asking again.
        """
        while not self._finished:
            error: grpc.RpcError | None = None
            stream = self._calls.stub.WatchJob(
                self._request, timeout=STREAM_SECONDS_MAX, metadata=self._calls.metadata
            )
            try:
                for message in stream:
                    if (update := self._taken(message)) is not None:
                        yield update
            except grpc.RpcError as broken:
                error = broken
            finally:
                stream.cancel()
            if not self._finished:
                self._wait(error)

    def _taken(self, message: pb.WatchJobResponse) -> Update | None:
        if message.cursor:
            self._request = pb.WatchJobRequest(job_id=self._request.job_id, cursor=message.cursor)
        if message.HasField("ended"):
            self._finished = message.ended.reason == pb.WATCH_END_REASON_FINISHED
        else:
            self._failures, self._broken_since = 0, None
        return convert.update(message)

    def _wait(self, error: grpc.RpcError | None) -> None:
        """Wait before the next stream, or raise what there is to raise."""
        pace = self._calls.pace
        if error is not None and (self._is_closed() or not _is_broken(error)):
            raise failure_of(error) from error
        self._failures += 1
        self._broken_since = self._broken_since or pace.monotonic()
        if pace.monotonic() - self._broken_since > PATIENCE.total_seconds():
            if error is not None:
                raise failure_of(error) from error
            raise CallFailed("UNAVAILABLE", "the service keeps ending the watch before the job's end")
        pace.sleep(self._calls.pause(self._failures))


def _is_broken(error: grpc.RpcError) -> bool:
    return error.code() in _BROKEN or _RESET in (error.details() or "")
