"""Makes texts of handlers fit the wire: within their limits, and without what no database stores."""

from __future__ import annotations

ELLIPSIS = "…"


def fitted(text: str, characters_max: int) -> str:
    """Return the text, cut with an ellipsis at the end if it is too long."""
    clean = storable(text)
    return clean if len(clean) <= characters_max else clean[: max(characters_max - 1, 0)] + ELLIPSIS


def tail(text: str, characters_max: int) -> str:
    """Return the text's end, where a traceback says what happened."""
    clean = storable(text)
    return clean if len(clean) <= characters_max else ELLIPSIS + clean[-(characters_max - 1) :]


def storable(text: str) -> str:
    """Return the text with a replacement character for each NUL and each half of a surrogate pair."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()
