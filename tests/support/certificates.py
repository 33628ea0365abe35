"""Certificates made inside a test: an authority, and files of what it signs."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

LOOPBACK: Sequence[x509.GeneralName] = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
)


@dataclass(frozen=True, slots=True)
class Files:
    """A certificate and its key, in PEM."""

    certificate: Path
    key: Path

    def settings(self) -> dict[str, str]:
        """As a service, an executor or a command is told of them."""
        return {"certificate_file": str(self.certificate), "key_file": str(self.key)}

    def replace_by(self, other: Files) -> None:
        """Put another's content in place, as a renewal does: each file by a rename."""
        for mine, theirs in ((self.certificate, other.certificate), (self.key, other.key)):
            fresh = mine.with_suffix(".new")
            fresh.write_bytes(theirs.read_bytes())
            fresh.replace(mine)


class Authority:
    """Signs certificates, and keeps all files in one directory."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        certificate = _built(self._name, self._name, self._key, is_authority=True).sign(
            self._key, hashes.SHA256()
        )
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(certificate.public_bytes(Encoding.PEM))

    def signed(
        self, file: str, *, common_name: str = "", names: Sequence[x509.GeneralName] = (), days: int = 1
    ) -> Files:
        """Make a certificate; with negative `days` it has expired so long ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _built(_named(common_name), self._name, key, days=days)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not common_name)
        certificate = builder.sign(self._key, hashes.SHA256())
        files = Files(self._directory / f"{file}.pem", self._directory / f"{file}.key")
        files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return files


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else [])


def _built(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    days: int = 1,
    is_authority: bool = False,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
