"""How a sentence about a name that does not exist tells those that do."""

from __future__ import annotations

from collections.abc import Iterable

_NAMES_MAX = 20
"""More would hide the sentence."""


def there_are(names: Iterable[str]) -> str:
    """The end of a sentence that lists the existing names, sorted, and the first ones only; may be empty."""
    known = sorted(names)
    if not known:
        return ""
    more = ", and more" if len(known) > _NAMES_MAX else ""
    return f"; there are {', '.join(known[:_NAMES_MAX])}{more}"
