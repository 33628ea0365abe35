"""Calls over a channel of asyncio. What is sent, tried again and understood is decided elsewhere."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import grpc

from job_api.client import convert
from job_api.client.asks import Ask, Listing
from job_api.client.failures import CallFailed
from job_api.client.tries import Tries, closed, require_span
from job_api.client.uploads import UPLOAD_TIMEOUT, Document
from job_api.client.views import Upload
from job_api.client.watching import Stream, Watch
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc

Answer = TypeVar("Answer")
View = TypeVar("View")

_ENDED_HERE = "the call was ended on this side"


@dataclass(frozen=True, slots=True)
class AsyncPace:
    """Time and dice.

    Attributes:
        monotonic: Seconds since an unknown point.
        sleep: Waits so many seconds.
        uniform: Draws from [0, 1).
    """

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    uniform: Callable[[], float] = random.random


class AsyncCalls:
    """The calls of one client, over one channel; each may raise `BatonError` or `CallFailed`."""

    def __init__(
        self,
        dial: Callable[[], grpc.aio.Channel],
        *,
        metadata: Sequence[tuple[str, str]],
        timeout: timedelta,
        pace: AsyncPace,
    ) -> None:
        """Dial with the first call: a channel belongs to the event loop that runs when it is made."""
        require_span("timeout", timeout)
        self._dial = dial
        self._channel: grpc.aio.Channel | None = None
        self._stub: Any = None
        self._metadata = tuple(metadata)
        self._timeout = timeout
        self._pace = pace
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        if self._channel is not None:
            await self._channel.close()

    async def ask(self, ask: Ask[Answer]) -> Answer:
        method = getattr(self._opened(), ask.method)
        return ask.read(await self._repeated(lambda: ask.request, method, self._timeout))

    async def each(self, listing: Listing[View]) -> AsyncIterator[View]:
        """Yield what a list holds; each page is asked for when it is needed."""
        token, more = "", True
        while more:
            page = await self.ask(listing(token))
            for view in page.views:
                yield view
            token = page.next_page_token
            more = bool(token)

    async def upload(self, document: Document) -> Upload:
        method = self._opened().UploadInput
        return convert.upload(
            await self._repeated(lambda: _off_the_loop(document.parts()), method, UPLOAD_TIMEOUT)
        )

    async def watch(
        self, stream: Stream[View], within: timedelta | None = None
    ) -> AsyncGenerator[View, None]:
        """Yield what a stream tells until the service says that all was sent."""
        watch = Watch(stream, within, now=self._pace.monotonic())
        while not watch.finished:
            error: grpc.RpcError | None = None
            seconds = watch.stream_seconds(self._pace.monotonic())
            method = getattr(self._opened(), watch.method)
            call = method(watch.request, timeout=seconds, metadata=self._metadata)
            try:
                with self._told_as_errors():
                    async for message in call:
                        if (update := watch.take(message)) is not None:
                            yield update
            except grpc.RpcError as broken:
                error = broken
            finally:
                call.cancel()
            if not watch.finished:
                now, uniform = self._pace.monotonic(), self._pace.uniform()
                await self._pace.sleep(
                    watch.wait_after(error, now=now, uniform=uniform, is_closed=self._closed)
                )

    async def _repeated(
        self, request: Callable[[], Any], method: Callable[..., Awaitable[Any]], within: timedelta
    ) -> Any:
        tries = Tries(within, now=self._pace.monotonic())
        while True:
            self._opened()
            seconds = tries.seconds_left(self._pace.monotonic())
            try:
                with self._told_as_errors():
                    return await method(request(), timeout=seconds, metadata=self._metadata)
            except grpc.RpcError as error:
                wait = tries.wait_after(error, now=self._pace.monotonic(), uniform=self._pace.uniform())
            await self._pace.sleep(wait)

    def _opened(self) -> Any:
        """Return the stub, dialling first if nothing has been called yet."""
        if self._closed:
            raise closed()
        if self._channel is None:
            self._channel = self._dial()
            self._stub = job_control_pb2_grpc.JobControlStub(self._channel)
        return self._stub

    @contextmanager
    def _told_as_errors(self) -> Iterator[None]:
        """Raise an error for a call that ends on this side: gRPC tells of it as if the task were cancelled.

        A closing client does that, and a document that can't be read to its end. A task that is cancelled
        itself stays so, whatever became of the client.
        """
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise (closed() if self._closed else CallFailed("CANCELLED", _ENDED_HERE)) from None


async def _off_the_loop(parts: Iterator[pb.UploadInputRequest]) -> AsyncIterator[pb.UploadInputRequest]:
    """Read in threads, for a disk may be slow."""
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part
