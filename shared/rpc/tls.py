"""How callers dial: in plaintext, or by TLS, with a certificate where the service asks for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import grpc

from shared.rpc.channel import ChannelOption
from shared.runtime.faults import StartupFault

if TYPE_CHECKING:  # a program that only calls needs no settings
    from shared.runtime.settings import TlsSettings


@dataclass(frozen=True, slots=True)
class Tls:
    """What a caller believes, and proves itself with; files in PEM.

    Attributes:
        ca_file: Who signs services' certificates; the machine's own list is a file too.
        certificate_file: With those between it and the root; `key_file` goes with it.
    """

    ca_file: Path
    certificate_file: Path | None = None
    key_file: Path | None = None

    @classmethod
    def told(cls, settings: TlsSettings) -> Self | None:
        """Return what settings say; None if they name nothing for callers.

        Raises:
            StartupFault: There is a certificate, but nobody to believe.
        """
        if settings.ca_file is not None:
            return cls(settings.ca_file, settings.certificate_file, settings.key_file)
        if settings.certificate_file is not None:
            raise StartupFault(
                "BATON_TLS__CA_FILE is needed to dial by TLS: who signs the service's certificate"
            )
        return None

    def credentials(self) -> grpc.ChannelCredentials:
        """Read the files. What is dialled with them goes on with what they hold now.

        Raises:
            StartupFault: A file can't be used.
        """
        # Most programs do without TLS, and need not wait for the library.
        from shared.rpc.pem import UnusableFile, read_authorities, read_pair  # noqa: PLC0415

        try:
            authorities = read_authorities(self.ca_file)
            if self.certificate_file is None or self.key_file is None:
                return grpc.ssl_channel_credentials(authorities)
            pair = read_pair(self.certificate_file, self.key_file)
        except UnusableFile as unusable:
            raise StartupFault(str(unusable)) from None
        return grpc.ssl_channel_credentials(authorities, pair.key, pair.chain)


def blocking_channel(
    address: str, credentials: grpc.ChannelCredentials | None, options: Sequence[ChannelOption]
) -> grpc.Channel:
    if credentials is None:
        return grpc.insecure_channel(address, options=options)
    return grpc.secure_channel(address, credentials, options=options)


def async_channel(
    address: str, credentials: grpc.ChannelCredentials | None, options: Sequence[ChannelOption]
) -> grpc.aio.Channel:
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, credentials, options=options)
