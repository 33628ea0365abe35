"""Gives each call a request id, in whose name every log line of the call is written."""

from __future__ import annotations

import re
import time
from typing import Any

import grpc
import structlog

from shared.rpc.calls import Call, CallInterceptor, Context, Proceed
from shared.runtime.ids import new_id

log = structlog.get_logger(__name__)

REQUEST_ID_KEY = "x-request-id"
"""Metadata by which a caller may name its call; sent back in the trailers, named by the caller or not."""

_REQUEST_ID = re.compile(r"[\w.:/-]{1,64}", re.ASCII)


class CallLogInterceptor(CallInterceptor):
    """One line for each call that ends other than well; the others are written at debug level.

    Calls are many and their effects have lines of their own.
    """

    async def around(self, call: Call, request: Any, context: Context, proceed: Proceed) -> Any:
        request_id = _request_id(context)
        context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
        started = time.monotonic()
        # Each call is a task of its own, so what is bound ends with it.
        structlog.contextvars.bind_contextvars(request_id=request_id, method=call.method)
        try:
            response = await proceed(request, context)
        except BaseException as error:
            code = _code(context) if isinstance(error, grpc.aio.AbortError) else "CANCELLED"
            log.info("call.failed", code=code, elapsed_s=_since(started))
            raise
        log.debug("call.ended", code=_code(context), elapsed_s=_since(started))
        return response


def _request_id(context: Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID_KEY and isinstance(value, str) and _REQUEST_ID.fullmatch(value):
            return value
    return str(new_id())


def _code(context: Context) -> str:
    """The status that the call ends with, by name; gRPC keeps it as a number, an enum or not at all."""
    code: object = context.code()
    if isinstance(code, grpc.StatusCode):
        return code.name
    return next((each.name for each in grpc.StatusCode if each.value[0] == (code or 0)), str(code))


def _since(started: float) -> float:
    return round(time.monotonic() - started, 4)
