"""What a check raises when something that must be so is not."""

from __future__ import annotations


class Unmet(AssertionError):
    """In one sentence: what was expected, and what was there instead."""


def require(condition: object, otherwise: str) -> None:
    """Raise Unmet with this sentence unless the condition is true."""
    if not condition:
        raise Unmet(otherwise)
