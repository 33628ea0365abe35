"""Turns whatever a servicer raises into a status, and lets nothing of the inside out.

An error of the table becomes its status with details. Anything else is a bug: the caller gets INTERNAL
and a reference, the log gets the same reference and the traceback. Task groups are looked into: the first
error speaks for a group if the table knows all of them, and a bug among them is reported as a bug.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any, Never

import grpc
import structlog
from grpc_status import rpc_status

from shared.domain.errors import BatonError
from shared.rpc.calls import Call, CallInterceptor, Context, Proceed
from shared.rpc.status import code_of, rich_status

log = structlog.get_logger(__name__)

_REFERENCE_BYTES = 6
"""Enough that two bugs in one log do not share a reference; short enough to be read out."""


class ErrorsInterceptor(CallInterceptor):
    """Applies the table of `shared/rpc/status.py`, also in the middle of a stream."""

    async def around(self, call: Call, request: Any, context: Context, proceed: Proceed) -> Any:
        try:
            return await proceed(request, context)
        except grpc.aio.AbortError:
            raise
        except NotImplementedError:  # what generated code raises for a method that its servicer lacks
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this version does not serve the method")
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            await _end(call, context, error)
        except Exception as error:  # noqa: BLE001 - nothing may pass by; `_end` raises for each
            await _end(call, context, error)


def _is_cancelled() -> bool:
    """Tell a call that is being cancelled from a servicer that awaited something cancelled by others.

    gRPC answers neither, so the second one's caller would wait for ever.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _end(call: Call, context: Context, error: BaseException) -> Never:
    causes = list(_causes(error))
    for cause in causes:
        # The call is over: aborted inside a task, or the peer is gone and the transport says so.
        if isinstance(cause, grpc.aio.AbortError) or _peer_is_gone(cause, context):
            raise cause
    first = causes[0]
    if isinstance(first, BatonError) and all(code_of(each) is not None for each in causes):
        structlog.contextvars.bind_contextvars(reason=first.reason)
        await context.abort_with_status(rpc_status.to_status(rich_status(first)))
    reference = secrets.token_hex(_REFERENCE_BYTES)
    log.error("call.crashed", method=call.method, ref=reference, exc_info=error)
    await context.abort(grpc.StatusCode.INTERNAL, f"internal error, ref {reference}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    else:
        yield error


def _peer_is_gone(error: BaseException, context: Context) -> bool:
    return isinstance(error, grpc.aio.BaseError) and (context.cancelled() or context.done())
