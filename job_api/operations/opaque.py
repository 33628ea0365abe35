"""Tokens that callers carry back unread: a value, sealed so that an altered or misplaced one is noticed.

Layout: base64url without padding of 12 bytes of SHA-256 over place and value, then the value as canonical
JSON. It is no secret and no proof: what comes out is checked like any input.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Any

from shared.catalog import json_text

_SEAL_BYTES = 12
"""Enough that no accident passes."""
_CHARACTERS_MAX = 1_000
"""Several times the longest token that is given out."""


class Unsealed(ValueError):
    """The token is none of this place."""


def seal(place: Any, value: Any) -> str:
    """Make a token of a JSON value for a place, which is a JSON value too."""
    body = json_text.canonical(value)
    return base64.urlsafe_b64encode(_seal(place, body) + body).decode().rstrip("=")


def unseal(place: Any, token: str) -> Any:
    """Return the value of a token that `seal` made for the same place.

    Raises:
        Unsealed: It was not made so.
    """
    if len(token) > _CHARACTERS_MAX or not token.isascii():
        raise Unsealed
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise Unsealed from None
    seal_bytes, body = raw[:_SEAL_BYTES], raw[_SEAL_BYTES:]
    if not hmac.compare_digest(seal_bytes, _seal(place, body)):
        raise Unsealed
    try:
        return json_text.parse(body)
    except json_text.MalformedDocument:
        raise Unsealed from None


def _seal(place: Any, body: bytes) -> bytes:
    return hashlib.sha256(json_text.canonical(place) + b"\0" + body).digest()[:_SEAL_BYTES]
