"""HTML: headings, paragraphs, lists and tables as text; no tree is built, so nesting costs nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from job_worker.handlers.documents.blocks import (
    Block,
    ParsedDocument,
    Passage,
    UnreadableDocument,
    clean,
    heading_or_passage,
    one_line,
)

HTML_CHARACTERS_MAX = 16 * 1024 * 1024
"""Characters of a page: read in about five seconds; no page made for people comes near."""

LIST_INDENT_MAX = 8
"""Levels of a list that are shown by indenting; deeper ones are set like the eighth."""

_CHARSET = re.compile(
    rb"""<meta[^>]{0,256}?charset\s{0,8}=\s{0,8}["']?\s{0,8}([\w.:-]{1,40})""", re.IGNORECASE
)
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_DROPPED = frozenset(
    {"noscript", "script", "style", "svg", "template", "iframe", "object", "textarea", "select"}
)
_GROUPS = frozenset({"ul", "ol", "table", "dl"})
_ROW_GROUPS = frozenset({"caption", "tbody", "tfoot", "thead", "tr"})
_PARTS = frozenset({"article", "aside", "body", "footer", "head", "header", "html", "main", "nav", "section"})
_PARAGRAPHS = frozenset({"address", "blockquote", "center", "dd", "div", "dt", "hr", "li", "p", "pre"})
_BOXES = frozenset({"details", "dialog", "fieldset", "figcaption", "figure", "form", "legend", "summary"})
_BLOCKS = _GROUPS | _ROW_GROUPS | _PARTS | _PARAGRAPHS | _BOXES
# Within a table's row a paragraph is no line of its own: cells stand side by side.
_ENDS_CELL_LINE = _GROUPS | _ROW_GROUPS | {"dd", "dt", "li", "pre"}


def declared_charset(content: bytes) -> str | None:
    """Return the character set that the page's own `meta` names, within the bytes where it must stand."""
    found = _CHARSET.search(content[:4096])
    return found[1].decode("ascii", "ignore") if found else None


def read_html(text: str) -> ParsedDocument:
    """Read a page, or a part of one.

    Raises:
        UnreadableDocument: `INPUT_TOO_LARGE`.
    """
    if len(text) > HTML_CHARACTERS_MAX:
        raise UnreadableDocument(
            "INPUT_TOO_LARGE", f"The HTML page has more than {HTML_CHARACTERS_MAX:,} characters."
        )
    reader = _Reader()
    try:
        reader.feed(_without_open_end(clean(text)))
        reader.close()
    except (AssertionError, ValueError):
        raise UnreadableDocument("INPUT_BROKEN", "The HTML page is damaged.") from None
    reader.finish()
    return ParsedDocument(reader.blocks, one_line("".join(reader.title)) or None)


def _without_open_end(text: str) -> str:
    """Drop a comment or tag that the text's end cuts off; older parsers look for its end again and again."""
    comment = text.find("<!--", text.rfind("-->") + 1)
    if comment >= 0:
        text = text[:comment]
    tag = re.compile(r"<[a-zA-Z/!?]").search(text, text.rfind(">") + 1)
    return text[: tag.start()] if tag else text


class _Reader(HTMLParser):
    """Turns tags and text into blocks as they come."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self.title: list[str] = []
        self._text: list[str] = []
        self._lines: list[str] = []
        self._dropped: list[str] = []
        self._lists: list[int | None] = []
        self._group_depth = 0
        self._preformatted = 0
        self._in_row = False
        self._heading: int | None = None
        self._picture_text = ""
        self._in_title = False
        self._mark = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._dropped:
            if tag == self._dropped[-1]:
                self._dropped.append(tag)
        elif tag in _DROPPED:
            self._dropped.append(tag)
        elif tag == "title":
            self._in_title = not self.title
        elif tag in _HEADINGS:
            self._end_group()
            self._heading = int(tag[1])
        elif tag in _BLOCKS:
            self._start_block(tag)
        else:
            self._start_inline(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # Only foreign elements can end where they start.
        if tag != "svg":
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._dropped:
            if tag == self._dropped[-1]:
                self._dropped.pop()
        elif tag == "title":
            self._in_title = False
        elif tag in _HEADINGS:
            self._end_heading()
        elif tag in _BLOCKS:
            self._end_block(tag)

    def handle_data(self, data: str) -> None:
        if self._dropped:
            return
        if self._in_title:
            self.title.append(data)
        elif self._preformatted or not data.isspace():
            self._text.append(data)
        elif self._text:
            self._text.append(" ")

    def finish(self) -> None:
        """Close whatever the page left open."""
        self._end_group()

    def _start_inline(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "br":
            self._text.append("\0")
        elif tag in {"td", "th"}:
            if self._text:
                self._text.append(" | ")
        elif tag == "img" and self._heading is not None:
            self._picture_text += dict(attrs).get("alt") or ""

    def _start_block(self, tag: str) -> None:
        if self._heading is not None:
            self._text.append(" ")
            return
        if self._in_row and tag not in _ENDS_CELL_LINE:
            self._text.append(" ")
            return
        self._end_line()
        if not self._group_depth:
            self._end_group()
        if tag in _GROUPS:
            self._group_depth += 1
        self._in_row = tag == "tr" or (self._in_row and tag not in _GROUPS)
        if tag in {"ul", "ol"}:
            self._lists.append(0 if tag == "ol" else None)
        elif tag == "li":
            self._mark = self._item_mark()
        elif tag == "pre":
            self._preformatted += 1

    def _end_block(self, tag: str) -> None:
        if self._heading is not None or (self._in_row and tag not in _ENDS_CELL_LINE):
            self._text.append(" ")
            return
        self._end_line()
        self._in_row = self._in_row and tag not in {"tr", "table"}
        if tag in _GROUPS and self._group_depth:
            self._group_depth -= 1
        if tag in {"ul", "ol"} and self._lists:
            self._lists.pop()
        elif tag == "pre" and self._preformatted:
            self._preformatted -= 1
        elif tag == "li":
            self._mark = ""
        if not self._group_depth:
            self._end_group()

    def _item_mark(self) -> str:
        indent = "  " * min(max(len(self._lists) - 1, 0), LIST_INDENT_MAX)
        number = self._lists[-1] if self._lists else None
        if number is None:
            return f"{indent}- "
        self._lists[-1] = number + 1
        return f"{indent}{number + 1}. "

    def _end_line(self) -> None:
        text = "".join(self._text)
        self._text.clear()
        if self._preformatted:
            text = text.replace("\0", "\n").strip("\n").rstrip()
        else:
            text = "\n".join(one_line(line) for line in text.split("\0")).strip()
        if text.strip():
            self._lines.append(self._mark + text)
            self._mark = ""

    def _end_group(self) -> None:
        """End heading and passage; inside a list or a table only a heading comes here."""
        if self._heading is not None:
            self._end_heading()
        self._end_line()
        if self._lines:
            self.blocks.append(Passage("\n".join(self._lines)))
            self._lines = []

    def _end_heading(self) -> None:
        if self._heading is None:
            return
        level, self._heading = self._heading, None
        text = "".join(self._text).replace("\0", " ")
        self._text.clear()
        block = heading_or_passage(level, text if text.strip() else self._picture_text)
        self._picture_text = ""
        if block is not None:
            self.blocks.append(block)
