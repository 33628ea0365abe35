"""Finds the headings among a PDF's lines, by the best witness there is.

Tags name headings outright. An outline names most of them, and so shows how they are set; lines that are set
alike, or larger, are headings too. With neither, what is set larger than the text, or in bold on lines of its
own, is a heading, and its rank follows from its size, its weight and the depth of its number.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from job_worker.handlers.documents.blocks import HEADING_CHARACTERS_MAX, Heading, heading_line
from job_worker.handlers.documents.pdf_lines import Line
from job_worker.handlers.documents.pdf_structure import Bookmark

LARGER = 1.1
"""A heading's size over the text's; less is within what one text varies by."""

HEADING_LINES_MAX = 3
"""Lines of a heading that was broken at the margin; more are a paragraph in large type."""

BOLD_HEADING_CHARACTERS_MAX = 120
"""Characters of a heading that only its weight tells from text; longer ones are emphasis."""

LINE_GAP_MAX = 1.7
"""Font sizes from one line down to the next within a heading or paragraph; usual are 1.15 to 1.5."""

LEVELS_MAX = 9
"""Levels that are told apart by style."""

_NUMBER = re.compile(
    r"(?:(?:chapter|section|part|appendix|kapitel|abschnitt|teil|anhang)\s+)?"
    r"(\d{1,3}(?:\.\d{1,3})*|[A-Z](?:\.\d{1,3})*(?=[.:)])|[IVXLC]{1,6}(?=[.:)]))[.:)]?(?:\s+|$)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.;,。]['\")\]»”]*$")
_BULLET = re.compile(r"[•●▪◦‣*·\u2013\u2014-]\s")
# A table of contents leads from a title to its page by dots.
_LEADERS = re.compile(r"(?:\. ?){4}|…{2}")
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")

Style = tuple[float, bool]


@dataclass(frozen=True, slots=True)
class Run:
    """Lines `first` up to, but not including, `end` that are set alike and follow each other closely."""

    first: int
    end: int
    style: Style
    text: str

    @property
    def number_depth(self) -> int:
        """How many parts the run's number has; 0 without one."""
        number = _NUMBER.match(self.text)
        return number[1].count(".") + 1 if number else 0

    @property
    def reads_like_text(self) -> bool:
        """Whether it is a sentence, or too long for a heading."""
        if self.end - self.first > HEADING_LINES_MAX or len(self.text) > HEADING_CHARACTERS_MAX:
            return True
        return bool(_SENTENCE.search(self.text)) and self.number_depth == 0


@dataclass(frozen=True, slots=True)
class Found:
    """A heading that takes the place of the lines `first` to `end`, of none if these are equal."""

    first: int
    end: int
    heading: Heading


def body_style(lines: Sequence[Line]) -> Style:
    """Return the style that most of the text is set in, and of short texts the smallest common one."""
    text: dict[Style, int] = defaultdict(int)
    everything: dict[Style, int] = defaultdict(int)
    for run in runs(lines):
        everything[run.style] += len(run.text)
        if run.reads_like_text:
            text[run.style] += len(run.text)
    if text:
        return max(text, key=lambda style: (text[style], -style[0], not style[1]))
    counted = 0
    for style in sorted(everything):
        counted += everything[style]
        if counted * 5 >= sum(everything.values()):
            return style
    return (0.0, False)


def runs(lines: Sequence[Line]) -> list[Run]:
    """Group all lines into runs, in order."""
    found: list[Run] = []
    first = 0
    for end in range(1, len(lines) + 1):
        if end < len(lines) and _continues(lines[end - 1], lines[end]):
            continue
        text = " ".join(line.text for line in lines[first:end])
        found.append(Run(first, end, (lines[first].size, lines[first].bold), text))
        first = end
    return found


def _continues(line: Line, following: Line) -> bool:
    if (line.page, line.size, line.bold) != (following.page, following.size, following.bold):
        return False
    down = line.y - following.y
    if not 0 < down <= LINE_GAP_MAX * line.size or following.columns:
        return False
    return line.full and not _BULLET.match(following.text)


def headings(lines: Sequence[Line], outline: Sequence[Bookmark], body: Style) -> list[Found]:
    """Return the headings in the lines' order; they do not overlap."""
    if any(line.mark for line in lines):
        return _tagged(lines)
    found = _outlined(lines, outline)
    taken = {at for one in found for at in range(one.first, one.end)}
    by_style = _by_style(lines, body, taken)
    levels = _levels(
        by_style, [(lines[one.first], one.heading.level) for one in found if one.end > one.first]
    )
    for run in by_style:
        found.append(
            Found(run.first, run.end, Heading(levels[run], heading_line(run.text), lines[run.first].page))
        )
    return sorted(found, key=lambda one: (one.first, one.end))


def _tagged(lines: Sequence[Line]) -> list[Found]:
    found: list[Found] = []
    first = 0
    for end in range(1, len(lines) + 1):
        mark = lines[first].mark
        if end < len(lines) and lines[end].mark == mark:
            continue
        text = " ".join(line.text for line in lines[first:end])
        if mark is not None and len(text) <= HEADING_CHARACTERS_MAX:
            found.append(Found(first, end, Heading(mark[1], heading_line(text), lines[first].page)))
        first = end
    return found


def _outlined(lines: Sequence[Line], outline: Sequence[Bookmark]) -> list[Found]:
    pages: dict[int, list[int]] = defaultdict(list)
    for at, line in enumerate(lines):
        pages[line.page].append(at)
    found: list[Found] = []
    taken: set[int] = set()
    for bookmark in outline:
        on_page = pages.get(bookmark.page, [])
        span = _spelled(lines, [at for at in on_page if at not in taken], bookmark)
        if span is None:
            at = _place(lines, on_page, bookmark, after=len(lines) if not pages else None)
            span = (at, at)
        taken.update(range(*span))
        title = bookmark.title[:HEADING_CHARACTERS_MAX]
        spelled = " ".join(line.text for line in lines[slice(*span)])
        found.append(Found(*span, Heading(bookmark.level, heading_line(spelled) or title, bookmark.page)))
    return found


def _spelled(lines: Sequence[Line], on_page: Sequence[int], bookmark: Bookmark) -> tuple[int, int] | None:
    """Find the lines that spell the bookmark's title: the largest, then the nearest to its place."""
    title = _letters(bookmark.title)
    matches: list[tuple[float, float, int, int]] = []
    for first in on_page if title else ():
        text = ""
        for end in range(first, min(first + HEADING_LINES_MAX, on_page[-1] + 1)):
            text += lines[end].text + " "
            if _same_title(text, title):
                distance = abs((bookmark.top or lines[first].y) - lines[first].y)
                matches.append((-lines[first].size, distance, first, end + 1))
                break
            if len(_letters(text)) > len(title) + 20:
                break
    return min(matches)[2:] if matches else None


def _same_title(text: str, title: str) -> bool:
    number = _NUMBER.match(text)
    own = _letters(text)
    return own == title or (number is not None and _letters(text[number.end() :]) == title)


def _letters(text: str) -> str:
    return _NOT_ALPHANUMERIC.sub("", text).casefold()


def _place(lines: Sequence[Line], on_page: Sequence[int], bookmark: Bookmark, after: int | None) -> int:
    """Return before which line a bookmark stands whose title is nowhere on its page."""
    if after is not None:
        return after
    if not on_page:
        return next((at for at, line in enumerate(lines) if line.page > bookmark.page), len(lines))
    top = bookmark.top
    if top is None:
        return on_page[0]
    return next((at for at in on_page if lines[at].y <= top), on_page[-1] + 1)


def _by_style(lines: Sequence[Line], body: Style, taken: set[int]) -> list[Run]:
    all_runs = [run for run in runs(lines) if run.first not in taken]
    of_style: dict[Style, list[Run]] = defaultdict(list)
    for run in all_runs:
        of_style[run.style].append(run)
    text_styles = {
        style
        for style, its_runs in of_style.items()
        if sum(run.reads_like_text for run in its_runs) * 10 > len(its_runs) * 3
    }
    return [
        run
        for run in all_runs
        if run.style not in text_styles and not run.reads_like_text and _stands_out(run, lines, body)
    ]


def _stands_out(run: Run, lines: Sequence[Line], body: Style) -> bool:
    size, bold = run.style
    words = sum(character.isalpha() for character in run.text)
    if not words or _LEADERS.search(run.text) or (words == 1 and run.text.isascii() and len(run.text) == 1):
        return False
    if size >= body[0] * LARGER:
        return True
    if not bold or body[1] or size < body[0] * 0.95 or len(run.text) > BOLD_HEADING_CHARACTERS_MAX:
        return False
    if lines[run.first].columns or _BULLET.match(run.text):
        return False
    return _begins_paragraph(lines, run.first)


def _begins_paragraph(lines: Sequence[Line], at: int) -> bool:
    if at == 0 or lines[at - 1].page != lines[at].page:
        return True
    above, line = lines[at - 1], lines[at]
    down = above.y - line.y
    return (
        down <= 0 or down > 1.3 * max(line.size, above.size) or (above.size, above.bold) > (line.size, True)
    )


def _levels(found: Sequence[Run], known: Sequence[tuple[Line, int]]) -> Mapping[Run, int]:
    """Give each run a level: that of a bookmark set alike, else by the rank of its style."""
    depths: dict[Style, set[int]] = defaultdict(set)
    for run in found:
        depths[run.style].add(run.number_depth)
    ranks = {run: _rank(run, varied=len(depths[run.style] - {0}) > 1) for run in found}
    if not known:
        order = sorted(set(ranks.values()))
        return {run: min(order.index(rank) + 1, LEVELS_MAX) for run, rank in ranks.items()}
    outlined: dict[Style, int] = {}
    for line, level in known:
        style = (line.size, line.bold)
        outlined[style] = min(level, outlined.get(style, level))
    return {run: _level_beside(run.style, outlined) for run in found}


def _rank(run: Run, *, varied: bool) -> tuple[float, bool, int]:
    size, bold = run.style
    return (-size, not bold, max(run.number_depth, 1) if varied else 0)


def _level_beside(style: Style, outlined: Mapping[Style, int]) -> int:
    if style in outlined:
        return outlined[style]
    above = [level for other, level in outlined.items() if other > style]
    return max(above) + 1 if above else 0
