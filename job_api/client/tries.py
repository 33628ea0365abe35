"""When a call is tried again: decided here for both clients, on times and dice that are given.

Only UNAVAILABLE is tried again: the service said that it is safe, or was not reached. A call that ran into
its deadline is not, because every try gets all the time that is left. What is called is safe to repeat:
reads, cancels, uploads, and creations with a key.
"""

from __future__ import annotations

from datetime import timedelta

import grpc

from job_api.client.failures import CallFailed, details_of, failure_of
from shared.domain.retries import Backoff

BACKOFF = Backoff(base=timedelta(seconds=0.1), cap=timedelta(seconds=2))
"""Quick at first, for a restart behind a load balancer; a person waits, so never long."""


class Tries:
    """The tries of one call, all of them inside one deadline.

    Times are seconds of the caller's monotonic clock, `uniform` a draw from [0, 1).
    """

    def __init__(self, within: timedelta, *, now: float) -> None:
        self._deadline = now + within.total_seconds()
        self._failures = 0

    def seconds_left(self, now: float) -> float:
        return self._deadline - now

    def wait_after(self, error: grpc.RpcError, *, now: float, uniform: float) -> float:
        """Return how many seconds to wait before the next try.

        A wait that would outlast the deadline is not begun.

        Raises:
            BatonError: There should be no other try; what the service said, by its reason.
            CallFailed: There should be none, for any other cause.
        """
        self._failures += 1
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise failure_of(error) from error
        asked = details_of(error).retry_after or timedelta(0)
        wait = asked.total_seconds() + pause(self._failures, uniform)
        if now + wait >= self._deadline:
            raise failure_of(error) from error
        return wait


def require_span(name: str, span: timedelta | None) -> None:
    """Refuse a number: nobody can tell whether it was meant as seconds.

    Raises:
        TypeError: It is neither a span nor None.
    """
    if span is not None and not isinstance(span, timedelta):
        raise TypeError(f"{name} is a timedelta, such as timedelta(seconds=5), not {span!r}")


def pause(failures: int, uniform: float) -> float:
    """Seconds to wait after so many failures in a row, with full jitter."""
    return BACKOFF.delay(failures, uniform=uniform).total_seconds()


def closed() -> CallFailed:
    """Make the error of a call of a client that was closed."""
    return CallFailed("CANCELLED", "the client is closed")
