"""Cuts a document's blocks into items: each under its headings, none too long, every heading visible."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from job_worker.handlers.documents.blocks import Block, Heading, Passage

_SENTENCE_END = re.compile(r"[.!?…。\uff01\uff1f]['\")\]»”]*\s")


@dataclass(frozen=True, slots=True)
class Item:
    """A text with the headings above it, outermost first, and the page on which it starts."""

    heading_path: tuple[str, ...]
    text: str
    page: int | None


@dataclass(slots=True)
class _Section:
    headings: list[Heading] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)


def items(blocks: Sequence[Block], *, characters_max: int) -> Iterator[Item]:
    """Yield the document's items in order; each text has 1 to `characters_max` characters.

    A heading is in the path of all that stands below it. One with neither text nor headings of its own
    below it yields an item whose text is the heading, so that it is not lost.
    """
    section = _Section()
    for block in blocks:
        match block:
            case Passage():
                section.passages.append(block)
            case Heading():
                yield from _items_of(section, following=block, characters_max=characters_max)
                section = _Section([*_above(section.headings, block), block])
    yield from _items_of(section, following=None, characters_max=characters_max)


def _above(headings: list[Heading], heading: Heading) -> list[Heading]:
    depth = len(headings)
    while depth and headings[depth - 1].level >= heading.level:
        depth -= 1
    return headings[:depth]


def _items_of(section: _Section, *, following: Heading | None, characters_max: int) -> Iterator[Item]:
    path = tuple(heading.text for heading in section.headings)
    found = False
    for text, page in _packed(section.passages, characters_max):
        found = True
        yield Item(path, text, page)
    if found or not section.headings:
        return
    last = section.headings[-1]
    if following is None or following.level <= last.level:
        yield Item(path, last.text, last.page)


def _packed(passages: Sequence[Passage], characters_max: int) -> Iterator[tuple[str, int | None]]:
    """Join whole passages while they fit together; cut those that do not fit alone."""
    waiting: list[str] = []
    page: int | None = None
    size = 0
    for passage in passages:
        for piece in pieces(passage.text, characters_max):
            if waiting and size + 2 + len(piece) > characters_max:
                yield "\n\n".join(waiting), page
                waiting, size = [], 0
            if not waiting:
                page = passage.page
            size += len(piece) + (2 if waiting else 0)
            waiting.append(piece)
    if waiting:
        yield "\n\n".join(waiting), page


def pieces(text: str, characters_max: int) -> Iterator[str]:
    """Cut `text` at line ends, else sentence ends, else spaces, and only within a word if it must be."""
    start = 0
    while start < len(text):
        end = _cut(text, start, characters_max)
        piece = text[start:end].strip("\n").rstrip()
        if piece.strip():
            yield piece
        start = end


def _cut(text: str, start: int, characters_max: int) -> int:
    end = start + characters_max
    if end >= len(text):
        return len(text)
    # A cut in the first half would leave crumbs.
    middle = start + characters_max // 2
    line_end = text.rfind("\n", middle, end)
    if line_end > 0:
        return line_end + 1
    sentence_ends = [match.end() for match in _SENTENCE_END.finditer(text, middle, end)]
    if sentence_ends:
        return sentence_ends[-1]
    for at in range(end - 1, start, -1):
        if text[at].isspace():
            return at + 1
    return end
