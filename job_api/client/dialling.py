"""How both clients dial."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from shared.rpc.channel import ChannelOption, channel_options

TIMEOUT = timedelta(seconds=10)
"""Of a call with all its tries, unless the caller says otherwise."""

MESSAGE_BYTES_MAX = 16 << 20
"""As much as the service accepts; pages of artifacts end at half of it."""

OPTIONS: Sequence[ChannelOption] = (
    *channel_options(message_bytes_max=MESSAGE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),  # the default is two minutes, longer than anyone waits
)
