"""A service that passes every call on to a true one, and is not true to its answers.

On the wire calls of all four kinds look alike, so each is passed on as a stream of bytes in both directions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc

_DETAILS = "grpc-status-details-bin"
_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.so_reuseport", 0),
)


class Truth:
    """Changes nothing; lies override what they lie about. Methods go by their bare names."""

    def request(self, method: str, message: bytes) -> bytes:
        """What the true service is sent for a message."""
        return message

    def responses(self, method: str, message: bytes) -> Sequence[bytes]:
        """What the caller gets for a message of the true service."""
        return [message]

    def details(self, method: str, details: bytes) -> bytes:
        """What stands in the trailers beside an error; empty for nothing."""
        return details


class _Passing(grpc.GenericRpcHandler):
    def __init__(self, channel: grpc.aio.Channel, lie: Truth) -> None:
        self._channel = channel
        self._lie = lie

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]
        true: Any = self._channel.stream_stream(details.method)

        async def passed_on(requests: Any, context: Any) -> None:
            call = true(
                (self._lie.request(method, each) async for each in requests),
                metadata=[each for each in context.invocation_metadata() if not each[0].startswith("grpc-")],
            )
            try:
                async for message in call:
                    for each in self._lie.responses(method, message):
                        await context.write(each)
            except grpc.aio.AioRpcError as error:
                await self._fail(method, context, error)
            finally:
                call.cancel()

        return grpc.stream_stream_rpc_method_handler(passed_on)

    async def _fail(self, method: str, context: Any, error: grpc.aio.AioRpcError) -> None:
        found = dict(error.trailing_metadata() or ()).get(_DETAILS, b"")
        told = self._lie.details(method, bytes(found))
        trailing = ((_DETAILS, told),) if told else ()
        await context.abort(error.code(), error.details() or "", trailing)


@asynccontextmanager
async def passing_on(address: str, lie: Truth) -> AsyncIterator[str]:
    """Run a service in front of the one at an address, and return its own."""
    async with grpc.aio.insecure_channel(address, options=_OPTIONS) as channel:
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((_Passing(channel, lie),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            with suppress(asyncio.CancelledError):
                await server.stop(None)
