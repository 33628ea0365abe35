"""No call without a limit: time for calls whose caller set none, bytes for requests."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import grpc

from shared.domain.errors import PayloadTooLarge
from shared.rpc.calls import Call, CallInterceptor, Context, Proceed


class DeadlineInterceptor(CallInterceptor):
    """Ends unary calls that run longer than the server's default, where the caller set no deadline.

    Streams, in either direction, live as long as their purpose; what bounds them is their own protocol
    and keepalive. A caller's own deadline is gRPC's to enforce.
    """

    def __init__(self, default: timedelta) -> None:
        self._default_seconds = default.total_seconds()
        self._explanation = (
            f"not done within {self._default_seconds:g} s, the server's limit for calls without a deadline"
        )

    async def around(self, call: Call, request: Any, context: Context, proceed: Proceed) -> Any:
        streams = call.request_streaming or call.response_streaming
        remaining: float | None = context.time_remaining()
        limit = asyncio.timeout(None if streams or remaining is not None else self._default_seconds)
        try:
            async with limit:
                return await proceed(request, context)
        except TimeoutError:
            if not limit.expired():  # a time-out of something inside
                raise
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, self._explanation)


class RequestSizeInterceptor(CallInterceptor):
    """Refuses a single request over its limit with a reason that can't be taken for "try again".

    The transport's own limit, which answers RESOURCE_EXHAUSTED, lies above this one. Messages of a
    request stream are bounded by the transport and by what their protocol says of each.
    """

    def __init__(self, request_bytes_max: int) -> None:
        self._request_bytes_max = request_bytes_max

    async def around(self, call: Call, request: Any, context: Context, proceed: Proceed) -> Any:
        if not call.request_streaming:
            size: int = request.ByteSize() if hasattr(request, "ByteSize") else len(request)
            if size > self._request_bytes_max:
                raise PayloadTooLarge("request", self._request_bytes_max, size)
        return await proceed(request, context)
