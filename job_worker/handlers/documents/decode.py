"""From bytes to text: byte order mark, declared character set, UTF-8, and only then a guess."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from job_worker.handlers.documents.blocks import UnreadableDocument

GUESS_BYTES_MAX = 65_536
"""Bytes that a guess looks at: enough for any statistics, and quick on the largest file."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WESTERN = frozenset(
    "ÄÖÜäöüßàâçéèêëîïôùûœÀÂÇÉÈÊËÎÏÔÙÛáíóúñÁÍÓÚÑ¿¡ãõÃÕåÅæÆøØ"
    "«»“”„\u2018\u2019\u2013\u2014…€§°\u00b4©®·\u00d7\u00a0"
)
_FOREIGN_RUN = re.compile(r"[^\W\x00-\x7f]{3}")
# Python's own notations; some take quadratic time.
_NOT_FOR_DOCUMENTS = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)
_CONTROLS = bytes(set(range(32)) - {8, 9, 10, 12, 13, 27})


def has_mark(content: bytes) -> bool:
    """Whether a byte order mark says that this is text."""
    return any(content.startswith(mark) for mark, _ in _MARKS)


def looks_binary(content: bytes) -> bool:
    """Whether there are bytes that no text holds; a text with a byte order mark may hold any."""
    if has_mark(content):
        return False
    controls = len(content) - len(content.translate(None, _CONTROLS))
    return b"\0" in content or controls * 100 > len(content)


def decoded(content: bytes, *, declared: str | None = None) -> str:
    """Return the text of `content`.

    Args:
        declared: The character set that a header or the document names; a wrong or unknown one is ignored.

    Raises:
        UnreadableDocument: `INPUT_ENCODING`: it is in no encoding that could be found out.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            text = _decode(content[len(mark) :], encoding)
            break
    else:
        text = _decode(content, declared) if declared else None
        text = _decode(content, "utf-8") if text is None else text
        text = _guessed(content) if text is None else text
    if text is None:
        raise UnreadableDocument(
            "INPUT_ENCODING", "The document's character encoding is unclear or damaged. Save it as UTF-8."
        )
    return text


def _guessed(content: bytes) -> str | None:
    western = _decode(content, "cp1252")
    if western is not None and _reads_western(western[:GUESS_BYTES_MAX]):
        return western
    best = from_bytes(content[:GUESS_BYTES_MAX]).best()
    if best is None:
        return None
    return _decode(content, best.encoding)


def _reads_western(text: str) -> bool:
    """Whether what is beyond ASCII is western, and stands between ASCII; short texts fool statistics."""
    return not _FOREIGN_RUN.search(text) and all(
        character in _WESTERN for character in text if character > "\x7f"
    )


def _decode(content: bytes, encoding: str) -> str | None:
    try:
        if codecs.lookup(encoding).name in _NOT_FOR_DOCUMENTS:
            return None
        return content.decode(encoding)
    except (LookupError, ValueError):
        return None
