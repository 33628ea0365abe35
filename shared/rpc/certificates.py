"""Certificates: the server's own, read again for the next connection once its files change, and the callers'.

gRPC's Python asks a client for its certificate only if it refuses connections without one: with a client CA,
every connection needs a certificate, also one whose calls carry tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from shared.domain.errors import Unauthenticated
from shared.domain.naming import there_are
from shared.domain.scopes import ALL_SCOPES
from shared.rpc.identity import Caller, Peer, Recognise, is_subject
from shared.rpc.pem import UnusableFile, read_authorities, read_pair
from shared.runtime.faults import StartupFault
from shared.runtime.files import Version, version

log = structlog.get_logger(__name__)

_SPIFFE = "spiffe://"


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """What a server proves itself with, in PEM.

    Attributes:
        certificate: With all that lies between it and the root.
        client_ca: Who signs the callers' certificates; None asks them for none.
    """

    certificate: Path
    key: Path
    client_ca: Path | None

    @property
    def versions(self) -> tuple[Version | None, ...]:
        return tuple(version(each) for each in (self.certificate, self.key, self.client_ca) if each)


def server_credentials(files: ServerFiles) -> grpc.ServerCredentials:
    """Make credentials that follow the files, while the port stays open.

    Files that don't fit together, as half-way through a renewal, change nothing: the last that did go on.
    Connections that stand are left alone. gRPC lets them serve one server, once.

    Raises:
        StartupFault: The files can't be used.
    """
    versions = files.versions
    try:
        first = _configuration(files)
    except UnusableFile as unusable:
        raise StartupFault(str(unusable)) from None
    changes = _Changes(files, versions)
    return grpc.dynamic_ssl_server_credentials(
        first,
        changes.look,  # type: ignore[arg-type]  # None is for no change, as its documentation says
        require_client_authentication=files.client_ca is not None,
    )


class _Changes:
    """Asked before every handshake, by a thread of gRPC's own."""

    def __init__(self, files: ServerFiles, versions: tuple[Version | None, ...]) -> None:
        self._files = files
        self._versions = versions

    def look(self) -> grpc.ServerCertificateConfiguration | None:
        """Read the files if they have changed; None if they have not, or can't be used."""
        present = self._files.versions
        if present == self._versions:
            return None
        self._versions = present
        try:
            return _configuration(self._files)
        except UnusableFile as unusable:
            log.warning("certificate.not_read", because=str(unusable))
            return None


def _configuration(files: ServerFiles) -> grpc.ServerCertificateConfiguration:
    pair = read_pair(files.certificate, files.key)
    client_ca = None if files.client_ca is None else read_authorities(files.client_ca)
    log.info(
        "certificate.read",
        path=str(files.certificate),
        subject=pair.certificate.subject.rfc4514_string(),
        not_after=pair.certificate.not_valid_after_utc.isoformat(),
    )
    return grpc.ssl_server_certificate_configuration([(pair.key, pair.chain)], client_ca)


def certified(scopes: Mapping[str, Collection[str]], *, setting: str) -> Recognise:
    """Know callers by their certificates, which the transport has verified.

    The subject is the certificate's SPIFFE id, else its first DNS name, else its common name.

    Args:
        scopes: By subject; one that is not there has none.
        setting: The environment variable that holds them.

    Raises:
        StartupFault: A scope does not exist.
    """
    unknown = sorted({scope for each in scopes.values() for scope in each} - ALL_SCOPES)
    if unknown:
        names = ", ".join(unknown)
        raise StartupFault(f"{setting} names unknown scopes: {names}{there_are(sorted(ALL_SCOPES))}")
    allowed = {subject: frozenset(each) for subject, each in scopes.items()}

    def recognise(peer: Peer) -> Caller:
        subject = _subject(peer)
        return Caller(subject, allowed.get(subject, frozenset()))

    return recognise


def _subject(peer: Peer) -> str:
    spiffe = [uri for uri in _texts(peer, "peer_uri") if uri.startswith(_SPIFFE)]
    named = (spiffe, _texts(peer, "peer_dns"), _texts(peer, "x509_common_name"))
    subject = next((texts[0] for texts in named if texts), "")
    if not is_subject(subject):
        raise Unauthenticated("the certificate names nobody")
    return subject


def _texts(peer: Peer, name: str) -> list[str]:
    """Read names; what is no text stays none: two of those must not look like one subject."""
    return [value.decode(errors="surrogateescape") for value in peer.get(name, ())]
