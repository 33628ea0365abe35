"""How an executor dials, and what it shows of itself with every call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import grpc

from shared.rpc.channel import ChannelOption, channel_options
from shared.rpc.tls import Tls, async_channel

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""Frames stay under 4 MiB; a deployment that allows larger ones says so in its welcome."""


@dataclass(frozen=True, slots=True)
class Way:
    """The way to the service.

    Attributes:
        metadata: Says who calls.
    """

    address: str
    metadata: Sequence[tuple[str, str]] = ()
    tls: Tls | None = None

    def channel(self, *options: ChannelOption) -> grpc.aio.Channel:
        """Make a channel that shows the certificate which the files hold now.

        Raises:
            StartupFault: A file can't be used.
        """
        credentials = self.tls.credentials() if self.tls is not None else None
        all_options = (*channel_options(message_bytes_max=MESSAGE_BYTES_MAX), *options)
        return async_channel(self.address, credentials, all_options)
