"""How our own clients dial: a quiet connection is kept, a dead one is noticed in seconds."""

from __future__ import annotations

from collections.abc import Sequence

ChannelOption = tuple[str, int | str]

CLIENT_PING_SECONDS = 10
"""How often our clients ask a quiet connection whether it lives. An executor without leases sends nothing
else, and is to notice as soon as one with leases that nothing comes through."""
PING_SECONDS_MIN = 5
"""The shortest interval that our servers permit; who pings more often is told GOAWAY `too_many_pings`. It is
half of our clients' interval, so that a busy machine may hold up a ping and send the next in time."""
PING_TIMEOUT_SECONDS = 5
"""How long an unanswered ping is waited for, on both sides, before the connection counts as dead."""


def channel_options(*, message_bytes_max: int) -> Sequence[ChannelOption]:
    """Options for a channel to either service, blocking or not.

    Args:
        message_bytes_max: Of a message in either direction.
    """
    return (
        ("grpc.keepalive_time_ms", CLIENT_PING_SECONDS * 1000),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT_SECONDS * 1000),
        # Without it a dead peer goes unnoticed for a minute, whatever the keepalive says.
        ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_SECONDS * 1000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_send_message_length", message_bytes_max),
        ("grpc.max_receive_message_length", message_bytes_max),
        # A proxy that the environment names for web pages is not meant for addresses inside a cluster.
        ("grpc.enable_http_proxy", 0),
    )


def call_metadata(token: str | None) -> Sequence[tuple[str, str]]:
    """Metadata that says who calls. gRPC's own call credentials refuse plaintext; metadata does not."""
    return () if token is None else (("authorization", f"Bearer {token}"),)
