"""A JobControl that answers as a test tells it, call by call, over a channel without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, cast

import grpc
import grpc_testing
from google.protobuf.timestamp_pb2 import Timestamp

from job_api.client import Client
from job_api.client.calls import Pace
from shared.domain.errors import BatonError
from shared.gen.baton.v1 import job_control_pb2, job_pb2
from shared.rpc.status import rich_status

JOB = "0197f3f0-0000-7000-8000-000000000001"
DETAILS_KEY = "grpc-status-details-bin"

Result = TypeVar("Result")


class ScriptedControl:
    """A client and the other end of its channel. No time passes but by sleeps of the client or the test.

    Attributes:
        slept: The client's waits between tries, in seconds.
        timeouts: What each unary call was given, in seconds; grpcio-testing ends none by itself.
    """

    def __init__(self, threads: ThreadPoolExecutor, *, timeout: timedelta, token: str | None = None) -> None:
        service = job_control_pb2.DESCRIPTOR.services_by_name["JobControl"]
        self._methods = service.methods_by_name
        self._time = grpc_testing.strict_fake_time(0)
        self._channel = grpc_testing.channel([service], self._time)
        self._threads = threads
        self.slept: list[float] = []
        self.timeouts: list[float] = []
        self.client = Client.over(
            cast("grpc.Channel", _Noting(self._channel, self.timeouts)),
            token=token,
            timeout=timeout,
            pace=Pace(self._time.time, self._sleep, lambda: 0.5),
        )

    def calling(self, call: Callable[[Client], Result]) -> Future[Result]:
        """Begin a call of the client, which goes on as far as the answers that it gets."""
        return self._threads.submit(call, self.client)

    def asked(self, method: str) -> tuple[Any, Any]:
        """Wait for the next call of a method; return its request and the rest of it."""
        _, request, rpc = self._channel.take_unary_unary(self._methods[method])
        return request, rpc

    def metadata_of(self, method: str) -> dict[str, str]:
        metadata, _, rpc = self._channel.take_unary_unary(self._methods[method])
        fail(rpc, grpc.StatusCode.INTERNAL)
        return dict(metadata)

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._time.sleep_for(seconds)


class _Noting:
    """A channel that writes down the time that each unary call is given."""

    def __init__(self, channel: Any, timeouts: list[float]) -> None:
        self._channel = channel
        self._timeouts = timeouts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def unary_unary(self, *arguments: Any, **named: Any) -> Callable[..., Any]:
        method = self._channel.unary_unary(*arguments, **named)

        def call(request: Any, *, timeout: float, metadata: Any) -> Any:
            self._timeouts.append(timeout)
            return method(request, timeout=timeout, metadata=metadata)

        return call


@contextmanager
def scripted_control(
    *, timeout: timedelta = timedelta(seconds=10), token: str | None = None
) -> Iterator[ScriptedControl]:
    with ThreadPoolExecutor(max_workers=1) as threads:
        yield ScriptedControl(threads, timeout=timeout, token=token)


def answer(rpc: Any, response: Any) -> None:
    rpc.terminate(response, (), grpc.StatusCode.OK, "")


def fail(rpc: Any, status: grpc.StatusCode, message: str = "") -> None:
    """End a call as a transport would: without the engine's details."""
    rpc.terminate(None, (), status, message)


def refuse(rpc: Any, error: BatonError) -> None:
    """End a call as the service ends it for an error of the engine."""
    status = rich_status(error)
    code = next(each for each in grpc.StatusCode if each.value[0] == status.code)
    rpc.terminate(None, ((DETAILS_KEY, status.SerializeToString()),), code, status.message)


def a_job(**fields: Any) -> job_pb2.Job:
    """A queued job, as the service tells of it."""
    told: dict[str, Any] = {
        "job_id": JOB,
        "job_type": "synthetic",
        "owner": "local",
        "state": job_pb2.JOB_STATE_QUEUED,
        "queue": "drill",
        "priority": 50,
        "create_time": Timestamp(seconds=1_900_000_000),
    }
    return job_pb2.Job(**(told | fields))
