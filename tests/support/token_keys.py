"""Private keys of a test's own, the key sets that publish them, and tokens that they sign."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from shared.rpc.key_sets import SigningKey, signing_key

KINDS = {"RS256": "rsa", "PS256": "rsa", "ES256": "ec", "EdDSA": "ed25519"}


def a_key(kind: str = "ed25519") -> SigningKey:
    return signing_key(_MAKERS[kind]())


@cache
def the_key(kind: str = "ed25519") -> SigningKey:
    """One key of each kind for tests that need no other: RSA takes its time."""
    return a_key(kind)


def pem(kind: str = "ed25519") -> bytes:
    """Make a private key, as openssl writes it."""
    return _MAKERS[kind]().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


_MAKERS: dict[
    str, Callable[[], rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey]
] = {
    "rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "weak rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=1024),
    "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
    "another curve": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
}


def document(*keys: SigningKey | dict[str, Any]) -> bytes:
    """Write the key set that publishes these."""
    jwks = [dict(each.public_jwk) if isinstance(each, SigningKey) else each for each in keys]
    return json.dumps({"keys": jwks}).encode()


def signed(
    key: SigningKey, *, algorithm: str | None = None, header: dict[str, Any] | None = None, **claims: Any
) -> str:
    """Sign a token; a claim or a header of None is left out."""
    defaults = {"sub": "ada", "scopes": ["jobs.read"], "exp": time.time() + 60}
    present = {name: value for name, value in (defaults | claims).items() if value is not None}
    headers = {"kid": key.key_id} | (header or {})
    return jwt.encode(
        present,
        key.private_key,
        algorithm=algorithm or key.algorithm,
        headers={name: value for name, value in headers.items() if value is not None},
    )
