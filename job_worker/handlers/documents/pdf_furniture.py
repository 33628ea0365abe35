"""Takes out of a PDF's lines what stands on every page: running headers, footers, page numbers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from job_worker.handlers.documents.pdf_lines import Line

MARGIN = 0.12
"""The part of a page's height, above and below, in which headers and footers stand."""

NUMBERED_PAGES_MIN = 3
"""Pages on which lines must agree that differ in a number only: two chapters' openings do, too."""

_NUMBERS = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(
    r"(?:page|seite|p\.)?\s*[-\u2013\u2014|]?\s*#\s*[-\u2013\u2014|]?(?:\s*(?:of|von|/|\|)\s*#)?",
    re.IGNORECASE,
)

_Place = tuple[str, int, float]


def without_furniture(lines: Sequence[Line], *, body_size: float) -> list[Line]:
    """Return the lines that are the document's own.

    A repeated line that is set larger than the text keeps its first occurrence, since it may be the title.
    """
    pages: dict[_Place, set[int]] = defaultdict(set)
    page_count = len({line.page for line in lines})
    for line in lines:
        if in_margin(line):
            pages[_place(line, body_size)].add(line.page)
    met: Counter[_Place] = Counter()
    kept: list[Line] = []
    for line in lines:
        place = _place(line, body_size)
        if in_margin(line) and _numbers_its_page(line):
            continue
        if not in_margin(line) or not _repeats(place, len(pages[place]), page_count):
            kept.append(line)
            continue
        met[place] += 1
        if line.size > body_size * 1.1 and met[place] == 1:
            kept.append(line)
    return kept


def in_margin(line: Line) -> bool:
    """Whether the line stands where headers and footers do; a page's first and last lines may, too."""
    return line.y < line.height * MARGIN or line.y > line.height * (1 - MARGIN)


def _numbers_its_page(line: Line) -> bool:
    text = _NUMBERS.sub("#", line.text)
    return bool(_PAGE_NUMBER.fullmatch(text)) and int(_NUMBERS.findall(line.text)[0][:9]) == line.page


def _place(line: Line, body_size: float) -> _Place:
    # Large type with a number in it is a chapter's opening, not a header.
    text = line.text if line.size > body_size * 1.1 else _NUMBERS.sub("#", line.text)
    return text, round(line.y / 3), line.size


def _repeats(place: _Place, pages: int, page_count: int) -> bool:
    text = place[0]
    needed = NUMBERED_PAGES_MIN if "#" in text else 2
    return pages >= max(needed, min(page_count // 3, NUMBERED_PAGES_MIN))
