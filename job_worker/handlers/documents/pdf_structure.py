"""What a PDF says about its own headings: the tags of tagged PDF, and the outline (bookmarks)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pypdf import PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import Destination, DictionaryObject, IndirectObject

from job_worker.handlers.documents.blocks import clean, one_line
from job_worker.handlers.documents.pdf_lines import HeadingMark

STRUCTURE_ELEMENTS_MAX = 100_000
"""Elements of the structure tree that are looked at: a thousand pages' worth, in about five seconds."""

OUTLINE_ENTRIES_MAX = 5_000
"""Entries of the outline that are used: no reader could follow more."""

OUTLINE_LEVELS_MAX = 9
"""Levels of the outline that are told apart; deeper ones count as the ninth."""

_ROLE_HOPS_MAX = 8
_LEVELS = {"/Title": 0, "/H": 1, "/H1": 1, "/H2": 2, "/H3": 3, "/H4": 4, "/H5": 5, "/H6": 6}

PageMarks = Mapping[int, Mapping[int, HeadingMark]]
"""Of each page, by its object's number: which marked content belongs to which heading."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the structure tree, with the page and the heading that it is part of."""

    value: Any
    page: int | None
    mark: HeadingMark | None


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of the outline; `page` is 1 for the first, `top` in points from the page's lower edge."""

    title: str
    level: int
    page: int
    top: float | None


def heading_marks(reader: PdfReader) -> PageMarks:
    """Return the headings of a tagged PDF; empty if it is not tagged, or its tags can't be read."""
    marks: dict[int, dict[int, HeadingMark]] = defaultdict(dict)
    try:
        for page, content, mark in _marked_contents(reader):
            marks[page][content] = mark
    except (PyPdfError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return {}
    return marks


def _marked_contents(reader: PdfReader) -> Iterator[tuple[int, int, HeadingMark]]:
    tree = _resolved(reader.root_object.get("/StructTreeRoot"))
    if not isinstance(tree, dict):
        return
    roles = _resolved(tree.get("/RoleMap"))
    roles = roles if isinstance(roles, dict) else {}
    seen: set[int] = set()
    waiting = [_Node(tree.get("/K"), None, None)]
    for number in range(1, STRUCTURE_ELEMENTS_MAX + 1):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node.value, IndirectObject):
            if node.value.idnum in seen:
                continue
            seen.add(node.value.idnum)
            node = replace(node, value=node.value.get_object())
        if isinstance(node.value, int) and node.page is not None and node.mark is not None:
            yield node.page, int(node.value), node.mark
        waiting.extend(_children(node, number, roles))


def _children(node: _Node, number: int, roles: Mapping[Any, Any]) -> list[_Node]:
    """Return what stands below a node, the last first; a new heading takes `number`."""
    if isinstance(node.value, list):
        return [replace(node, value=child) for child in reversed(node.value)]
    if not isinstance(node.value, DictionaryObject):
        return []
    reference = node.value.raw_get("/Pg") if "/Pg" in node.value else None
    page = reference.idnum if isinstance(reference, IndirectObject) else node.page
    level = _level(node.value.get("/S"), roles)
    mark = node.mark if level is None or node.mark is not None else (number, level)
    below = node.value.get("/MCID") if "/MCID" in node.value else node.value.get("/K")
    return [_Node(below, page, mark)]


def _level(role: Any, roles: Mapping[Any, Any]) -> int | None:
    for _ in range(_ROLE_HOPS_MAX):
        if role in _LEVELS:
            return _LEVELS[role]
        role = roles.get(role)
    return None


def bookmarks(reader: PdfReader) -> list[Bookmark]:
    """Return the outline in its order; empty if there is none, or it can't be read."""
    try:
        return list(_bookmarks(reader))
    except (PyPdfError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return []


def _bookmarks(reader: PdfReader) -> Iterator[Bookmark]:
    waiting: list[tuple[Any, int]] = [(reader.outline, 0)]
    for _ in range(OUTLINE_ENTRIES_MAX):
        if not waiting:
            return
        node, level = waiting.pop()
        if isinstance(node, list):
            waiting.extend((child, level + 1) for child in reversed(node))
        elif isinstance(node, Destination):
            title = one_line(clean(str(node.title or "")))
            page = reader.get_destination_page_number(node)
            if title and page is not None and page >= 0:
                top = float(node.top) if isinstance(node.top, int | float) else None
                yield Bookmark(title, min(level, OUTLINE_LEVELS_MAX), page + 1, top)


def _resolved(node: Any) -> Any:
    return node.get_object() if isinstance(node, IndirectObject) else node
