"""Tables that are read in a terminal of any width, or by other programs through a pipe.

A cell is broken at its blanks only: ids are there to be copied, states to be searched for. Where a terminal
is too narrow, empty columns are left out, and the last columns go to lines of their own beneath each row. A
pipe has no width: each row is one line there.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

Row = tuple[str, ...]

_GAP = "  "
_INDENT = " " * 4
_TEXT_WIDTH_MIN = 24
"""The last column is often a sentence: with so much room it stays on the line, and goes on beneath itself."""


@dataclass(frozen=True, slots=True)
class Styles:
    """Of heads, and of cells that are one of these words."""

    head: str
    words: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which columns share a line, and how wide all columns are; a width of None has no bounds."""

    parts: Sequence[Sequence[int]]
    widths: Sequence[int]
    width: int | None


def lines(columns: Row, rows: Sequence[Row], styles: Styles, *, width: int | None) -> Iterator[Text]:
    """Lay out heads and rows in a terminal so wide, or without bounds.

    Args:
        rows: Plain text, whatever it holds: line breaks count as blanks, and what can't be printed is left
            out.
    """
    cleaned = [tuple(map(_on_one_line, row)) for row in rows]
    layout = _layout(columns, cleaned, width)
    for at, part in enumerate(layout.parts):
        yield from _lines_of(
            columns, part, _INDENT if at else "", layout, dict.fromkeys(columns, styles.head)
        )
    for row in cleaned:
        for at, part in enumerate(layout.parts):
            if any(row[column] for column in part):
                yield from _lines_of(row, part, _INDENT if at else "", layout, styles.words)


def _on_one_line(cell: str) -> str:
    return "".join(each for each in " ".join(cell.split()) if each.isprintable())


def _layout(columns: Row, rows: Sequence[Row], width: int | None) -> _Layout:
    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    shown = list(range(len(columns)))
    if width is None or _width_of(widths) <= width:
        return _Layout([shown], widths, width)
    shown = [column for column in shown if not rows or any(row[column] for row in rows)]
    parts = [list[int]()]
    for column in shown:
        room = width - (len(_INDENT) if len(parts) > 1 else 0)
        needed = min(widths[column], _TEXT_WIDTH_MIN) if column == len(columns) - 1 else widths[column]
        if parts[-1] and _width_of([*(widths[each] for each in parts[-1]), needed]) > room:
            parts.append([])
        parts[-1].append(column)
    return _Layout(parts, widths, width)


def _width_of(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _lines_of(
    row: Row, part: Sequence[int], indent: str, layout: _Layout, styles: dict[str, str]
) -> Iterator[Text]:
    """Write the cells that share a line; the last one goes on beneath itself where it is too long."""
    line = Text(indent)
    for column in part[:-1]:
        line.append(row[column], styles.get(row[column]))
        line.append(" " * (layout.widths[column] - cell_len(row[column])) + _GAP)
    last = row[part[-1]]
    beneath = line.cell_len or len(_INDENT)
    for piece in _pieces(last, None if layout.width is None else layout.width - beneath):
        line.append(piece, styles.get(last))
        line.rstrip()
        yield line
        line = Text(" " * beneath)


def _pieces(cell: str, width: int | None) -> Sequence[str]:
    if width is None or cell_len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, max(width, 1), break_long_words=False, break_on_hyphens=False)
