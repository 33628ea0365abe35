"""Key sets (JWKS, RFC 7517): the public keys that verify tokens, each with the algorithms of its kind."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import InvalidKeyError

log = structlog.get_logger(__name__)

KEY_SET_BYTES_MAX = 256 * 1024
"""A hundred keys with their certificates."""
_KEYS_MAX = 100
_RSA_BITS_MIN = 2048
"""As RFC 7518 asks of RS256 and PS256."""
_RSA_BITS_MAX = 8192
"""What a larger key takes to verify one token, a caller would make the service pay."""

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class UnusableKey(Exception):
    """A key, or a whole set of them, that nothing can be verified or signed with; says why in one line."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key, and all algorithms that a token may be signed by with its other half."""

    material: PublicKey | str
    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key with its one algorithm, and its name: the thumbprint of RFC 7638."""

    private_key: PrivateKey
    algorithm: str
    public_jwk: Mapping[str, str]

    @property
    def key_id(self) -> str:
        return self.public_jwk["kid"]


class KeySet:
    """The keys of one document."""

    def __init__(self, keys: Mapping[str | None, VerifyingKey]) -> None:
        """`keys` is by name; one without a name can only be asked for where it is alone."""
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None) -> VerifyingKey | None:
        """Find the key of this name; for None the only one, and none of several."""
        if key_id is None or (len(self._keys) == 1 and None in self._keys):
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)


def read_key_set(document: bytes) -> KeySet:
    """Read a JWKS document. Keys that sign no tokens, or that are too weak, are left out.

    Raises:
        UnusableKey: It is no key set, or nothing can be verified with it.
    """
    keys: dict[str | None, VerifyingKey] = {}
    for jwk in _jwks(document):
        try:
            key_id = _name(jwk)
            if key_id in keys:
                raise UnusableKey("another key has the same name")
            keys[key_id] = _verifying_key(jwk)
        except UnusableKey as unusable:
            log.debug("key_set.key_left_out", key_id=repr(jwk.get("kid"))[:100], because=str(unusable))
    if not keys:
        raise UnusableKey("it holds no key that tokens can be verified with (RS256, PS256, ES256, EdDSA)")
    return KeySet(MappingProxyType(keys))


def signing_key(key: PrivateKeyTypes) -> SigningKey:
    """Take a private key for signing: RSA, elliptic curve P-256, or Ed25519.

    Raises:
        UnusableKey: It is none of these.
    """
    match key:
        case rsa.RSAPrivateKey() if key.key_size >= _RSA_BITS_MIN:
            return _signing_key(key, "RS256", RSAAlgorithm.to_jwk(key.public_key(), as_dict=True))
        case ec.EllipticCurvePrivateKey() if isinstance(key.curve, ec.SECP256R1):
            return _signing_key(key, "ES256", ECAlgorithm.to_jwk(key.public_key(), as_dict=True))
        case ed25519.Ed25519PrivateKey():
            return _signing_key(key, "EdDSA", OKPAlgorithm.to_jwk(key.public_key(), as_dict=True))
        case _:
            raise UnusableKey(
                f"it must be RSA of {_RSA_BITS_MIN} bits or more, elliptic curve P-256, or Ed25519"
            )


def _signing_key(key: PrivateKey, algorithm: str, jwk: Mapping[str, Any]) -> SigningKey:
    public = {name: str(jwk[name]) for name in ("crv", "e", "kty", "n", "x", "y") if name in jwk}
    canonical = json.dumps(public, separators=(",", ":"), sort_keys=True).encode()
    thumbprint = base64.urlsafe_b64encode(hashlib.sha256(canonical).digest()).rstrip(b"=").decode()
    return SigningKey(key, algorithm, public | {"kid": thumbprint, "alg": algorithm, "use": "sig"})


def _jwks(document: bytes) -> Sequence[Mapping[str, Any]]:
    try:
        read = json.loads(document)
    except (ValueError, RecursionError):
        raise UnusableKey("it is no JSON") from None
    keys = read.get("keys") if isinstance(read, dict) else None
    if not isinstance(keys, list) or not all(isinstance(each, dict) for each in keys):
        raise UnusableKey('it is no key set: {"keys": [...]} is expected')
    if len(keys) > _KEYS_MAX:
        raise UnusableKey(f"it holds more than {_KEYS_MAX} keys")
    return keys


def _name(jwk: Mapping[str, Any]) -> str | None:
    key_id = jwk.get("kid")
    if key_id is None or isinstance(key_id, str):
        return key_id
    raise UnusableKey("its name is no text")


def _verifying_key(jwk: Mapping[str, Any]) -> VerifyingKey:
    uses = jwk.get("key_ops", ["verify"])
    if jwk.get("use", "sig") != "sig" or not isinstance(uses, list) or "verify" not in uses:
        raise UnusableKey("it is not for signatures")
    if "d" in jwk:
        raise UnusableKey("it is a private key, which nobody else should ever see")
    read = _READERS.get(str(jwk.get("kty")))
    if read is None:
        raise UnusableKey("its kind signs no tokens here")
    try:
        material, algorithms = read(dict(jwk))
    except (InvalidKeyError, ValueError, TypeError, KeyError, UnsupportedAlgorithm):
        raise UnusableKey("it can't be read") from None
    named = jwk.get("alg")
    if named is not None:
        algorithms = tuple(each for each in algorithms if each == named)
    if not algorithms:
        raise UnusableKey("its algorithm signs no tokens here")
    return VerifyingKey(material, algorithms)


def _rsa(jwk: dict[str, Any]) -> tuple[PublicKey, tuple[str, ...]]:
    key = RSAAlgorithm.from_jwk(jwk)
    if not isinstance(key, rsa.RSAPublicKey) or not _RSA_BITS_MIN <= key.key_size <= _RSA_BITS_MAX:
        raise UnusableKey(f"it must have {_RSA_BITS_MIN} to {_RSA_BITS_MAX} bits")
    return key, ("RS256", "PS256")


def _elliptic(jwk: dict[str, Any]) -> tuple[PublicKey, tuple[str, ...]]:
    key = ECAlgorithm.from_jwk(jwk)
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise UnusableKey("its curve is not P-256")
    return key, ("ES256",)


def _edwards(jwk: dict[str, Any]) -> tuple[PublicKey, tuple[str, ...]]:
    key = OKPAlgorithm.from_jwk(jwk)
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise UnusableKey("its curve is not Ed25519")
    return key, ("EdDSA",)


_READERS: Mapping[str, Callable[[dict[str, Any]], tuple[PublicKey, tuple[str, ...]]]] = MappingProxyType(
    {"RSA": _rsa, "EC": _elliptic, "OKP": _edwards}
)
