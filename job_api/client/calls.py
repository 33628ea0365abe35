"""Calls that are tried again while that can help, all tries inside one deadline.

Only UNAVAILABLE is tried again: the service said that it is safe, or was not reached. A call that ran into
its deadline is not, because every try gets all the time that is left. What is called here is safe to
repeat: reads, cancels, uploads, and creations with a key.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import grpc

from job_api.client.failures import details_of, failure_of
from shared.domain.retries import Backoff
from shared.gen.baton.v1 import job_control_pb2_grpc

Request = TypeVar("Request")
Response = TypeVar("Response")

BACKOFF = Backoff(base=timedelta(seconds=0.1), cap=timedelta(seconds=2))
"""Quick at first, for a restart behind a load balancer; a person waits, so never long."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Time and dice.

    Attributes:
        monotonic: Seconds since an unknown point.
        sleep: Waits so many seconds.
        uniform: Draws from [0, 1).
    """

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    uniform: Callable[[], float] = random.random


class Calls:
    """The calls of one client, over one channel."""

    def __init__(
        self, channel: grpc.Channel, *, metadata: Sequence[tuple[str, str]], timeout: timedelta, pace: Pace
    ) -> None:
        self.stub = job_control_pb2_grpc.JobControlStub(channel)
        self.metadata = tuple(metadata)
        self.pace = pace
        self._timeout = timeout

    def unary(self, method: grpc.UnaryUnaryMultiCallable[Request, Response], request: Request) -> Response:
        """Call a method.

        Raises:
            BatonError: What the service said, by its reason.
            CallFailed: Anything else.
        """
        return self.repeated(
            lambda seconds: method(request, timeout=seconds, metadata=self.metadata), timeout=self._timeout
        )

    def repeated(self, attempt: Callable[[float], Response], *, timeout: timedelta) -> Response:
        """Make attempts, each with the seconds that are left, until one succeeds or trying again can't help.

        A wait that would outlast the deadline is not begun: the error is raised at once.
        """
        deadline = self.pace.monotonic() + timeout.total_seconds()
        for failures in itertools.count(1):
            try:
                return attempt(deadline - self.pace.monotonic())
            except grpc.RpcError as error:
                wait = self._wait_after(error, failures)
                if wait is None or self.pace.monotonic() + wait >= deadline:
                    raise failure_of(error) from error
            self.pace.sleep(wait)
        raise AssertionError("counting ended")

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, with full jitter."""
        return BACKOFF.delay(failures, uniform=self.pace.uniform()).total_seconds()

    def _wait_after(self, error: grpc.RpcError, failures: int) -> float | None:
        """Seconds to wait before the next attempt; None if there should be none."""
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            return None
        asked = details_of(error).retry_after or timedelta(0)
        return asked.total_seconds() + self.pause(failures)
