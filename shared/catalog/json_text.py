"""JSON text: read strictly, written canonically, hashed the same way everywhere."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import rfc8785

INTEGER_MAX = 2**53 - 1
"""Larger integers are not exact in JavaScript and have no canonical form (RFC 8785); send them as text."""
DEPTH_MAX = 64
"""Deeper nesting is refused before any recursion can run out."""


class MalformedDocument(ValueError):
    """The text is no JSON that every language reads the same; the message is a sentence for its sender."""


def parse(text: bytes) -> Any:
    """Read JSON text.

    Raises:
        MalformedDocument: It is not UTF-8 or not JSON, is nested too deeply, or holds a duplicate key, NaN,
            an infinity, a NUL character or an integer beyond `INTEGER_MAX`.
    """
    try:
        value = json.loads(
            text.decode(),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_exact,
        )
    except UnicodeDecodeError:
        raise MalformedDocument("is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise MalformedDocument(
            f"is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from None
    except RecursionError:
        raise MalformedDocument(f"is nested deeper than {DEPTH_MAX} levels") from None
    _check(value, depth=0)
    return value


def canonical(value: Any) -> bytes:
    """Write a JSON value in its canonical form (RFC 8785), nested keys sorted too.

    Raises:
        MalformedDocument: The value has none.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeEncodeError) as error:
        raise MalformedDocument(f"has no canonical form: {error}") from None


def digest(value: Any) -> bytes:
    """Return the SHA-256 over a JSON value's canonical form.

    Raises:
        MalformedDocument: The value has no canonical form.
    """
    return hashlib.sha256(canonical(value)).digest()


def content_hash(value: Any) -> str:
    """Return `digest` in hex."""
    return digest(value).hex()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        counted = Counter(key for key, _ in pairs)  # one pass: a large text has a hundred thousand keys
        raise MalformedDocument(f"has the key {counted.most_common(1)[0][0]!r} twice")
    return result


def _refuse_constant(name: str) -> Any:
    raise MalformedDocument(f"holds {name}, which is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise MalformedDocument("holds a number that is out of range")
    return number


def _exact(text: str) -> int:
    if len(text) > len(str(INTEGER_MAX)) + 1 or abs(number := int(text)) > INTEGER_MAX:
        raise MalformedDocument("holds an integer beyond 2^53 - 1; send it as text")
    return number


def _check(value: Any, *, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise MalformedDocument(f"is nested deeper than {DEPTH_MAX} levels")
    match value:
        case str():
            _check_text(value)
        case dict():
            for key, member in value.items():
                _check_text(key)
                _check(member, depth=depth + 1)
        case list():
            for member in value:
                _check(member, depth=depth + 1)
        case _:
            pass  # numbers were checked when they were read


def _check_text(text: str) -> None:
    if "\0" in text:
        raise MalformedDocument("holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MalformedDocument("holds half of a surrogate pair") from None
