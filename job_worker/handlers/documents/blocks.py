"""What all parsers produce: a document's headings and passages, in reading order."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

HEADING_CHARACTERS_MAX = 300
"""Characters of a heading; what is longer is a paragraph that happens to be set like one."""

OnProgress = Callable[[int, int], None]
"""Told how many of how many pages or sections are done; what it raises ends the parsing."""

_ANCHOR_SIGNS = "¶🔗 "
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Neither a database nor JSON takes all of these, and no reader misses them.
_UNWANTED = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff\u00ad]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


class UnreadableDocument(Exception):
    """The document can't be read, and trying again will not help.

    Attributes:
        code: An error code, `INPUT_…`.
        message: A sentence for the person who gave the document.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; `level` is 1 for the outermost, 0 for a title above all of them."""

    level: int
    text: str
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """Text that belongs together: a paragraph, a list, a table, a block of code."""

    text: str
    page: int | None = None


Block = Heading | Passage


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document's content; `title` is what it calls itself, if it does."""

    blocks: list[Block]
    title: str | None = None
    pages: int | None = None


def clean(text: str) -> str:
    """Return `text` in composed form, with plain line ends and nothing that can't be stored."""
    text = _UNWANTED.sub("", _LINE_ENDS.sub("\n", text))
    return unicodedata.normalize("NFC", _SURROGATES.sub("\ufffd", text))


def one_line(text: str) -> str:
    """Return `text` with each run of white space as one space."""
    return " ".join(text.split())


def heading_line(text: str) -> str:
    """Return a heading's text on one line, without the sign that links to it."""
    return one_line(text).rstrip(_ANCHOR_SIGNS)


def heading_or_passage(level: int, text: str) -> Block | None:
    """Make a heading, or a passage of what is too long for one; nothing of nothing."""
    line = heading_line(text)
    if not line:
        return None
    if len(line) > HEADING_CHARACTERS_MAX:
        return Passage(text.strip())
    return Heading(level, line)
