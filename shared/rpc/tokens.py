"""Tokens: JWTs that a shared secret signs, or a private key whose public half is in a key set.

Which algorithm is allowed follows from the key, never from the token: a secret verifies HS256 alone, and a
key of a set its own kind's algorithms, so that no public key is ever taken for a secret.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import jwt

from shared.domain.errors import Unauthenticated
from shared.rpc.identity import Caller, Verify, is_subject
from shared.rpc.key_sets import SigningKey, UnusableKey, VerifyingKey, signing_key
from shared.rpc.pem import UnusableFile, read_private_key
from shared.runtime.faults import StartupFault

SECRET_BYTES_MIN = 32
"""As long as the hash of HS256 (RFC 7518, 3.2)."""
CLOCK_LEEWAY = timedelta(seconds=30)
"""How far the clock that signed a token may be ahead of or behind ours."""
_TOKEN_CHARACTERS_MAX = 8192
"""As much as gRPC takes for all metadata of a call by default."""
_SECRET_ALGORITHM = "HS256"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token must say besides; None expects nothing of it.

    A token that is meant for a certain audience is refused where none is expected.
    """

    issuer: str | None = None
    audience: str | None = None


NOTHING_MORE = Expected()


class KeySource(Protocol):
    """Where the keys are that verify tokens."""

    async def key(self, key_id: str | None) -> VerifyingKey:
        """Find the key of this name; the only one there is if a token names none.

        Raises:
            Unauthenticated: There is no such key.
            PlatformUnavailable: No keys could be had yet, or none for too long.
        """
        ...


def shared_secret(secret: str, *, setting: str, expected: Expected = NOTHING_MORE) -> Verify:
    """Verify tokens that are signed with `secret` (HS256), have a subject and have not expired.

    Args:
        setting: The environment variable that holds the secret.

    Raises:
        StartupFault: The secret is short enough to be found by trying, or is a key that others may know.
    """
    if len(secret.encode()) < SECRET_BYTES_MIN:
        raise StartupFault(f"{setting} is too short: at least {SECRET_BYTES_MIN} bytes are needed")
    try:
        jwt.encode({}, secret, algorithm=_SECRET_ALGORITHM)
    except jwt.InvalidKeyError:
        raise StartupFault(f"{setting} is a key or certificate: a secret of random text is needed") from None
    key = VerifyingKey(secret, (_SECRET_ALGORITHM,))

    async def verify(token: str) -> Caller:
        return _caller(token, key, expected)

    return verify


def key_set(keys: KeySource, *, expected: Expected = NOTHING_MORE) -> Verify:
    """Verify tokens that a key of the set has signed, that have a subject and have not expired."""

    async def verify(token: str) -> Caller:
        return _caller(token, await keys.key(_key_id(token)), expected)

    return verify


def read_signing_key(path: Path) -> SigningKey:
    """Read a private key in PEM: RSA, elliptic curve P-256, or Ed25519.

    Raises:
        StartupFault: It can't be read, or is none of these.
    """
    try:
        return signing_key(read_private_key(path))
    except UnusableFile as unusable:
        raise StartupFault(str(unusable)) from None
    except UnusableKey as unusable:
        raise StartupFault(f"{path} can't be used: {unusable}") from None


def signed_token(
    key: str | SigningKey,
    *,
    subject: str,
    scopes: Collection[str],
    now: datetime,
    lifetime: timedelta,
    expected: Expected = NOTHING_MORE,
) -> str:
    """Sign a token that is let through until its life is over.

    Args:
        key: A private key, or the secret of `shared_secret`.

    Raises:
        StartupFault: No caller can have such a name.
    """
    if not is_subject(subject):
        raise StartupFault("the subject must be 1 to 200 printable characters")
    claims = {"sub": subject, "scopes": sorted(scopes), "iat": now, "exp": now + lifetime}
    names = {"iss": expected.issuer, "aud": expected.audience}
    claims |= {name: value for name, value in names.items() if value is not None}
    if isinstance(key, str):
        return jwt.encode(claims, key, algorithm=_SECRET_ALGORITHM)
    return jwt.encode(claims, key.private_key, algorithm=key.algorithm, headers={"kid": key.key_id})


def _key_id(token: str) -> str | None:
    if len(token) > _TOKEN_CHARACTERS_MAX:
        raise Unauthenticated
    try:
        key_id: str | None = jwt.get_unverified_header(token).get("kid")
    except jwt.InvalidTokenError:
        raise Unauthenticated from None
    return key_id


def _caller(token: str, key: VerifyingKey, expected: Expected) -> Caller:
    required = ["sub", "exp"]
    required += ["iss"] if expected.issuer is not None else []
    required += ["aud"] if expected.audience is not None else []
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key.material,
            algorithms=list(key.algorithms),
            issuer=expected.issuer,
            audience=expected.audience,
            leeway=CLOCK_LEEWAY,
            # When it was signed decides nothing, and the signer's clock may be ahead of ours.
            options={"require": required, "verify_iat": False},
        )
    except jwt.ExpiredSignatureError:
        raise Unauthenticated("the token has expired") from None
    except jwt.PyJWTError:
        raise Unauthenticated from None
    if not is_subject(claims["sub"]):
        raise Unauthenticated
    return Caller(claims["sub"], _scopes(claims))


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Read `scopes`, a list, or else `scope`, words with spaces between (RFC 8693)."""
    scopes = claims.get("scopes")
    if scopes is None:
        scope = claims.get("scope", "")
        scopes = scope.split() if isinstance(scope, str) else None
    if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes):
        raise Unauthenticated
    return frozenset(scopes)
