"""Calls over a blocking channel. What is sent, tried again and understood is decided elsewhere."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import grpc

from job_api.client import convert
from job_api.client.asks import Ask, Listing
from job_api.client.tries import Tries, closed, require_span
from job_api.client.uploads import UPLOAD_TIMEOUT, Document
from job_api.client.views import Upload
from job_api.client.watching import Stream, Watch
from shared.gen.baton.v1 import job_control_pb2_grpc

Answer = TypeVar("Answer")
View = TypeVar("View")


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
    """The calls of one client, over one channel; each may raise `BatonError` or `CallFailed`."""

    def __init__(
        self, channel: grpc.Channel, *, metadata: Sequence[tuple[str, str]], timeout: timedelta, pace: Pace
    ) -> None:
        require_span("timeout", timeout)
        self._channel = channel
        self._stub = job_control_pb2_grpc.JobControlStub(channel)
        self._metadata = tuple(metadata)
        self._timeout = timeout
        self._pace = pace
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._channel.close()

    def ask(self, ask: Ask[Answer]) -> Answer:
        method = getattr(self._stub, ask.method)
        return ask.read(self._repeated(lambda: ask.request, method, self._timeout))

    def each(self, listing: Listing[View]) -> Iterator[View]:
        """Yield what a list holds; each page is asked for when it is needed."""
        page = self.ask(listing(""))
        yield from page.views
        while page.next_page_token:
            page = self.ask(listing(page.next_page_token))
            yield from page.views

    def upload(self, document: Document) -> Upload:
        return convert.upload(self._repeated(document.parts, self._stub.UploadInput, UPLOAD_TIMEOUT))

    def watch(self, stream: Stream[View], within: timedelta | None = None) -> Iterator[View]:
        """Yield what a stream tells until the service says that all was sent."""
        watch = Watch(stream, within, now=self._pace.monotonic())
        while not watch.finished:
            self._require_open()
            error: grpc.RpcError | None = None
            seconds = watch.stream_seconds(self._pace.monotonic())
            method = getattr(self._stub, watch.method)
            call = method(watch.request, timeout=seconds, metadata=self._metadata)
            try:
                for message in call:
                    if (update := watch.take(message)) is not None:
                        yield update
            except grpc.RpcError as broken:
                error = broken
            finally:
                call.cancel()
            if not watch.finished:
                now, uniform = self._pace.monotonic(), self._pace.uniform()
                self._pace.sleep(watch.wait_after(error, now=now, uniform=uniform, is_closed=self._closed))

    def _repeated(self, request: Callable[[], Any], method: Callable[..., Any], within: timedelta) -> Any:
        tries = Tries(within, now=self._pace.monotonic())
        while True:
            self._require_open()
            seconds = tries.seconds_left(self._pace.monotonic())
            try:
                return method(request(), timeout=seconds, metadata=self._metadata)
            except grpc.RpcError as error:
                wait = tries.wait_after(error, now=self._pace.monotonic(), uniform=self._pace.uniform())
            self._pace.sleep(wait)

    def _require_open(self) -> None:
        if self._closed:
            raise closed()
