"""A service with one method of each kind of call, for tests of what stands around every call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import grpc

from shared.domain.scopes import JOBS_READ
from shared.rpc.calls import Context
from shared.rpc.identity import KnownBy, Verify
from shared.rpc.server import Entrance, OpenServer, Service, open_server, serving
from shared.rpc.tls import async_channel

NAME = "baton.test.FourKinds"
KINDS = ("UnaryUnary", "UnaryStream", "StreamUnary", "StreamStream")
Act = Callable[[Context], Awaitable[bytes]]


def four_kinds(act: Act, *, scopes: dict[str, str] | None = None) -> Service:
    """Build the service; its streams send `b"first"`, and then what `act` returns, as all methods do."""

    async def once(request: Any, context: Context) -> bytes:
        await _taken(request)
        return await act(context)

    async def stream(request: Any, context: Context) -> AsyncIterator[bytes]:
        await _taken(request)
        yield b"first"
        yield await act(context)

    async def written(request: Any, context: Context) -> None:
        await context.write(b"first")
        await context.write(await act(context))

    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "UnaryUnary": grpc.unary_unary_rpc_method_handler(once),
        "UnaryStream": grpc.unary_stream_rpc_method_handler(stream),
        "StreamUnary": grpc.stream_unary_rpc_method_handler(once),
        "StreamStream": grpc.stream_stream_rpc_method_handler(stream),
        "WrittenStream": grpc.unary_stream_rpc_method_handler(written),
    }

    def add_to(server: grpc.aio.Server) -> None:
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, handlers),))

    return Service(NAME, add_to, dict.fromkeys(handlers, JOBS_READ) if scopes is None else scopes)


async def _taken(request: Any) -> None:
    """Read a stream of requests to its end: a client that still writes when its call is ended may read
    INTERNAL from its own library instead of the status.
    """
    if hasattr(request, "__aiter__"):
        async for _ in request:
            pass


@dataclass(frozen=True)
class Running:
    opened: OpenServer
    channel: grpc.aio.Channel

    async def ask(
        self, kind: str, request: bytes = b"", *, metadata: tuple[tuple[str, str], ...] = ()
    ) -> list[bytes]:
        """Call the method of that kind and collect all its responses."""
        call = self.start(kind, request, metadata=metadata)
        if hasattr(call, "__aiter__"):
            return [response async for response in call]
        return [await call]

    def start(self, kind: str, request: bytes = b"", *, metadata: tuple[tuple[str, str], ...] = ()) -> Any:
        path = f"/{NAME}/{kind}"
        channel: Any = self.channel
        match kind:
            case "UnaryUnary":
                return channel.unary_unary(path)(request, metadata=metadata)
            case "StreamUnary":
                return channel.stream_unary(path)(iter([request]), metadata=metadata)
            case "StreamStream":
                return channel.stream_stream(path)(iter([request]), metadata=metadata)
            case _:
                return channel.unary_stream(path)(request, metadata=metadata)


@asynccontextmanager
async def running(
    act: Act,
    *,
    verify: Verify | None = None,
    entrance: Entrance | None = None,
    credentials: grpc.ChannelCredentials | None = None,
    scopes: dict[str, str] | None = None,
    message_bytes_max: int = 1 << 20,
    call_time_max: timedelta = timedelta(seconds=30),
) -> AsyncIterator[Running]:
    """Run a real server with the service on a free port, and a channel to it; with credentials, by TLS."""
    opened = open_server(
        "127.0.0.1:0",
        [four_kinds(act, scopes=scopes)],
        entrance=entrance or Entrance(KnownBy(verify)),
        message_bytes_max=message_bytes_max,
        call_time_max=call_time_max,
    )
    async with (
        serving(opened, grace=timedelta(seconds=0.1)),
        async_channel(opened.address, credentials, ()) as channel,
    ):
        yield Running(opened, channel)
