"""What a call brings besides its request, and what single fields of requests may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """As a deployment sets them."""

    labels_max: int
    jobs_per_call_max: int
    batch_items_max: int
    chunk_bytes_max: int


def traceparent(context: Context) -> str:
    """The call's trace context as it was sent; empty if it came without one."""
    metadata = context.invocation_metadata() or ()
    return next((str(value) for key, value in metadata if key == "traceparent"), "")
