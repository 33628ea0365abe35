"""Certificates and keys in PEM files, checked before gRPC gets them: it tells of faults in its log only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificatePublicKeyTypes,
    PrivateKeyTypes,
    PublicKeyTypes,
)
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key


class UnusableFile(Exception):
    """No connection can be made with a file; says in one line which, and why."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, as gRPC takes them.

    Attributes:
        chain: PEM; the certificate, and those between it and the root.
        key: PEM.
        certificate: The first of the chain.
    """

    chain: bytes
    key: bytes
    certificate: x509.Certificate


def read_pair(certificate_file: Path, key_file: Path) -> KeyPair:
    """Read a certificate and its key.

    Raises:
        UnusableFile: One of them can't be used, or they don't belong to each other.
    """
    chain, key = _read(certificate_file), _read(key_file)
    certificate = _certificates(certificate_file, chain)[0]
    try:
        certified = _der(certificate.public_key())
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableFile(f"the key in {certificate_file} is of no known kind") from None
    if certified != _der(_private_key(key_file, key).public_key()):
        raise UnusableFile(f"{key_file} is not the key of {certificate_file}")
    return KeyPair(chain, key, certificate)


def read_private_key(path: Path) -> PrivateKeyTypes:
    """Read a private key of any kind.

    Raises:
        UnusableFile: It is none, or is kept under a passphrase.
    """
    return _private_key(path, _read(path))


def read_authorities(path: Path) -> bytes:
    """Read the certificates of those who sign others.

    Raises:
        UnusableFile: There are none in it.
    """
    pem = _read(path)
    _certificates(path, pem)
    return pem


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnusableFile(f"{path} can't be read: {error.strerror}") from None


def _certificates(path: Path, pem: bytes) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise UnusableFile(f"{path} holds no certificate in PEM") from None


def _private_key(path: Path, pem: bytes) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(pem, password=None)
    except TypeError:
        raise UnusableFile(f"{path} is kept under a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableFile(f"{path} holds no private key in PEM") from None


def _der(public_key: PublicKeyTypes | CertificatePublicKeyTypes) -> bytes:
    return public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
