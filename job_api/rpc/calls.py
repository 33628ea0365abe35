"""What a call brings besides its request."""

from __future__ import annotations

from typing import Any

import grpc


def traceparent(context: grpc.aio.ServicerContext[Any, Any]) -> str:
    """The call's trace context as it was sent; empty if it came without one."""
    metadata = context.invocation_metadata() or ()
    return next((str(value) for key, value in metadata if key == "traceparent"), "")
