"""A PDF page's lines with what tells headings from text: size, weight, place, and the tags of tagged PDF."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pypdf import PageObject

from job_worker.handlers.documents.blocks import clean, one_line

CHARACTER_WIDTH = 0.5
"""A character's usual width as a part of the font size; good enough to see a gap or a full line."""

COLUMN_GAP = 2.0
"""Font sizes of empty room within a line from which on it is a table's row, or an entry of contents."""

_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\u00a0": " "}
)
_BOLD_NAME = re.compile(r"bold|black|heavy|semib|demi|cmbx|cmssbx|sfbx|[-,]b(?:d|$)", re.IGNORECASE)
_NUMBER = re.compile(r"\s*(?:\d{1,3}|[A-Z]|[IVX]{1,5})(?:\.\d{1,3}){0,5}[.:)]?\s*")
_FORCE_BOLD = 1 << 18
_BOLD_WEIGHT = 600
_SHOWS_TEXT = frozenset({b"Tj", b"TJ", b"'", b'"'})
_ARTIFACT = "artifact"

HeadingMark = tuple[int, int]
"""A tagged heading: its number in the document, and its level."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text; sizes and places in points, `y` upwards from the page's lower edge.

    Attributes:
        full: It may have been broken because it reached the margin.
        columns: There are wide gaps in it.
        mark: The tagged heading that it is part of.
    """

    text: str
    page: int
    size: float
    bold: bool
    y: float
    height: float
    full: bool
    columns: bool
    mark: HeadingMark | None


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    size: float
    bold: bool
    x: float
    y: float
    mark: HeadingMark | None
    cell: bool = False

    @property
    def weight(self) -> int:
        return sum(not character.isspace() for character in self.text)


def page_lines(page: PageObject, number: int, marks: Mapping[int, HeadingMark]) -> list[Line]:
    """Return the page's lines in the order in which they are drawn, without what is tagged as no content.

    Args:
        number: The page's, 1 for the first.
        marks: Which marked content of this page is part of which heading.
    """
    collector = _Collector(marks)
    page.extract_text(visitor_operand_before=collector.before_operation, visitor_text=collector.take_text)
    collector.end_line()
    box = page.mediabox
    height, width = float(box.height) or 1.0, float(box.width) or 1.0
    lines = (_line(pieces, number, height, width) for pieces in _rows(collector.lines))
    return [line for line in lines if line is not None]


class _Collector:
    """Listens to a page's text; knows by which marked content and how boldly it is shown."""

    def __init__(self, marks: Mapping[int, HeadingMark]) -> None:
        self.lines: list[list[_Piece]] = []
        self._marks = marks
        self._pieces: list[_Piece] = []
        self._open: list[HeadingMark | str | None] = []
        self._shown: HeadingMark | str | None = None
        self._stroked = False
        self._bold_fonts: dict[int, bool] = {}

    def before_operation(self, operator: bytes, operands: Any, *_: Any) -> None:
        if operator in _SHOWS_TEXT:
            self._shown = self._open[-1] if self._open else None
        elif operator in {b"BDC", b"BMC"}:
            self._open.append(self._mark(operands))
        elif operator == b"EMC" and self._open:
            self._open.pop()
        elif operator == b"Tr" and operands:
            # Filled and stroked is how bold is made where the font has none.
            self._stroked = operands[0] == 2  # noqa: PLR2004

    def take_text(self, text: str, outer: list[float], inner: list[float], font: Any, size: float) -> None:
        for at, part in enumerate(text.split("\n")):
            if at:
                self.end_line()
            if part and self._shown != _ARTIFACT and (self._pieces or not part.isspace()):
                self._pieces.append(self._piece(part, outer, inner, font, size))

    def end_line(self) -> None:
        if self._pieces:
            self.lines.append(self._pieces)
            self._pieces = []

    def _mark(self, operands: Any) -> HeadingMark | str | None:
        around = self._open[-1] if self._open else None
        if around == _ARTIFACT or (operands and operands[0] == "/Artifact"):
            return _ARTIFACT
        properties = operands[1] if len(operands) > 1 else None
        if isinstance(properties, dict) and isinstance(properties.get("/MCID"), int):
            return self._marks.get(int(properties["/MCID"]))
        return around

    def _piece(self, text: str, outer: list[float], inner: list[float], font: Any, size: float) -> _Piece:
        scale = math.hypot(
            inner[2] * outer[0] + inner[3] * outer[2], inner[2] * outer[1] + inner[3] * outer[3]
        )
        x = inner[4] * outer[0] + inner[5] * outer[2] + outer[4]
        y = inner[4] * outer[1] + inner[5] * outer[3] + outer[5]
        mark = self._shown if isinstance(self._shown, tuple) else None
        return _Piece(text, _finite(abs(size) * scale), self._is_bold(font), _finite(x), _finite(y), mark)

    def _is_bold(self, font: Any) -> bool:
        if self._stroked:
            return True
        if not isinstance(font, dict):
            return False
        if id(font) not in self._bold_fonts:
            self._bold_fonts[id(font)] = _bold(font)
        return self._bold_fonts[id(font)]


def _bold(font: Any) -> bool:
    if _BOLD_NAME.search(str(font.get("/BaseFont", ""))):
        return True
    descendants = font.get("/DescendantFonts")
    if descendants:
        font = descendants[0].get_object()
    descriptor = font.get("/FontDescriptor")
    descriptor = descriptor.get_object() if descriptor is not None else {}
    weight, flags = descriptor.get("/FontWeight", 0), descriptor.get("/Flags", 0)
    heavy = isinstance(weight, int | float) and weight >= _BOLD_WEIGHT
    return heavy or (isinstance(flags, int) and bool(flags & _FORCE_BOLD))


def _rows(lines: Iterable[list[_Piece]]) -> list[list[_Piece]]:
    """Put side by side what was drawn so, if apart: a table's cells, a heading's number and its words."""
    rows: list[list[_Piece]] = []
    for pieces in lines:
        if rows and abs(rows[-1][0].y - pieces[0].y) < 1 and rows[-1][-1].x < pieces[0].x:
            rows[-1].extend([replace(pieces[0], text=" " + pieces[0].text, cell=True), *pieces[1:]])
        else:
            rows.append(pieces)
    return rows


def _line(pieces: list[_Piece], page: int, height: float, width: float) -> Line | None:
    text = one_line(clean("".join(piece.text for piece in pieces)).translate(_LIGATURES))
    if not text:
        return None
    sizes: Counter[float] = Counter()
    for piece in pieces:
        sizes[piece.size] += piece.weight
    size = max(sizes, key=lambda size: (sizes[size], size))
    visible = [piece for piece in pieces if piece.weight]
    return Line(
        text=text,
        page=page,
        size=round(size * 2) / 2,
        bold=all(piece.bold for piece in visible),
        y=pieces[0].y,
        height=height,
        full=len(text) * size * CHARACTER_WIDTH > width / 2,
        columns=_has_columns(visible),
        mark=next((piece.mark for piece in visible if piece.mark), None),
    )


def _has_columns(pieces: list[_Piece]) -> bool:
    if _NUMBER.fullmatch("".join(piece.text for piece in pieces[:1])):
        pieces = pieces[1:]
    if any(piece.cell for piece in pieces[1:]):
        return True
    end = None
    for piece in pieces:
        if end is not None and piece.x - end > COLUMN_GAP * piece.size:
            return True
        end = piece.x + len(piece.text) * piece.size * CHARACTER_WIDTH * (1.2 if piece.bold else 1)
    return False


def _finite(value: float) -> float:
    return value if math.isfinite(value) and abs(value) < 1e6 else 0.0  # noqa: PLR2004
