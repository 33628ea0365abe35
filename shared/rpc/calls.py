"""One shape for the four kinds of call, so that an interceptor is written once."""

from __future__ import annotations

import abc
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from shared.domain.errors import FieldViolation, InvalidInput

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
Proceed: TypeAlias = Callable[[Any, Context], Awaitable[Any]]
"""The rest of a call: takes the request (or the iterator of requests), returns the response, or None once
all responses of a stream are written."""

_HANDLER_OF = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}


@dataclass(frozen=True, slots=True)
class Call:
    """What is known of a call before its request is read.

    Attributes:
        method: The path: `/baton.v1.JobControl/CreateJob`.
    """

    method: str
    request_streaming: bool
    response_streaming: bool

    @property
    def service(self) -> str:
        return self.method.rpartition("/")[0].lstrip("/")


class CallInterceptor(grpc.aio.ServerInterceptor, abc.ABC):
    """Does something around every call, of whichever kind.

    Interceptors see requests as bytes: they are decoded behind the last one. gRPC would decode before the
    first, and answer UNKNOWN with the decoder's own words.
    """

    @abc.abstractmethod
    async def around(self, call: Call, request: Any, context: Context, proceed: Proceed) -> Any:
        """Await `proceed(request, context)` and return what it returns, or raise."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None:  # no such method
            return None
        call = Call(handler_call_details.method, handler.request_streaming, handler.response_streaming)
        proceed = _coroutine(handler)

        async def behave(request: Any, context: Context) -> Any:
            return await self.around(call, request, context, proceed)

        make = _HANDLER_OF[handler.request_streaming, handler.response_streaming]
        return make(behave, None, handler.response_serializer)


def _coroutine(handler: grpc.RpcMethodHandler[Any, Any]) -> Proceed:
    """Give a handler's behaviour the one shape: gRPC lets a coroutine write its responses itself.

    If requests still come as bytes that the handler wants decoded, they are decoded here.
    """
    behaviour: Any = (
        handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    )

    decode: Any = handler.request_deserializer

    async def proceed(request: Any, context: Context) -> Any:
        if decode is not None:
            request = _Decoded(request, decode) if handler.request_streaming else _decoded(request, decode)
        outcome = behaviour(request, context)
        if not isinstance(outcome, AsyncIterable):
            return await outcome
        # Closed here, and not by the garbage collector some time later, if the caller goes away.
        async with aclosing(outcome) as responses:  # type: ignore[type-var]
            async for response in responses:
                await context.write(response)
        return None

    return proceed


class _Decoded(AsyncIterator[Any]):
    """The messages of a request stream; no generator, which would be over once a wait was cancelled."""

    def __init__(self, raw: AsyncIterable[bytes], decode: Callable[[bytes], Any]) -> None:
        self._raw = aiter(raw)
        self._decode = decode

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return _decoded(await anext(self._raw), self._decode)


def _decoded(raw: bytes, decode: Callable[[bytes], Any]) -> Any:
    try:
        return decode(raw)
    except DecodeError:  # its text is of no use to a caller
        raise InvalidInput([FieldViolation("request", "it can't be read as the method's message")]) from None
