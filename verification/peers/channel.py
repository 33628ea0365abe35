"""Connections to services that come and go."""

from __future__ import annotations

import grpc

from shared.rpc.channel import channel_options

_MESSAGE_BYTES_MAX = 64 << 20
"""More than any service takes, so that it is the service that refuses."""
_RECONNECT_MILLISECONDS = 200
_RECONNECT_MILLISECONDS_MAX = 1_000


def channel_to(address: str) -> grpc.aio.Channel:
    """A connection that nobody shares, and that is tried again soon after it broke."""
    options = (
        *channel_options(message_bytes_max=_MESSAGE_BYTES_MAX),
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MILLISECONDS),
        ("grpc.min_reconnect_backoff_ms", _RECONNECT_MILLISECONDS),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MILLISECONDS_MAX),
        ("grpc.use_local_subchannel_pool", 1),
    )
    return grpc.aio.insecure_channel(address, options=options)
