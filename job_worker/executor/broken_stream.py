"""Tells the end of a stream that the other side made from one that this process wished."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import grpc


class StreamBroken(Exception):
    """The stream has ended, or could not be opened; another one may be.

    Attributes:
        code: What gRPC said; None if it said nothing.
    """

    def __init__(self, message: str, code: grpc.StatusCode | None = None) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def broken_streams() -> Iterator[None]:
    """Turn every end of a stream that is not this process's own wish into one error."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise StreamBroken(f"{error.code().name}: {error.details()}", error.code()) from None
    except asyncio.InvalidStateError:
        raise StreamBroken("the stream has ended") from None
    except TimeoutError:
        raise StreamBroken("the service did not answer") from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # A peer's CANCELLED or RST_STREAM looks like a local one.
        raise StreamBroken("the stream was cancelled by the other side", grpc.StatusCode.CANCELLED) from None
