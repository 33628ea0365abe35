"""Markdown: headings as plain text, all else as it is written: lists, tables and code read well so."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from job_worker.handlers.documents.blocks import (
    HEADING_CHARACTERS_MAX,
    Block,
    Heading,
    ParsedDocument,
    Passage,
    clean,
    heading_or_passage,
)
from job_worker.handlers.documents.html import read_html

FRONT_MATTER_LINES_MAX = 200
"""Lines within which front matter must end; else the first line is a ruler."""

_FRONT_MATTER = {"---": (r"[\w-]+[ \t]*:", ("---", "...")), "+++": (r"[\w.-]+[ \t]*=|\[", ("+++",))}
_TITLE = re.compile(r"title[ \t]*[:=][ \t]*(.+)")
_ATTRIBUTES = re.compile(r"[ \t]\{[^{}]*\}$")
_HTML_HEADING = re.compile(r"<h[1-6][\s>]", re.IGNORECASE)


def read_markdown(text: str) -> ParsedDocument:
    """Read Markdown (CommonMark with tables); headings inside quotes and lists are part of those."""
    lines = clean(text).split("\n")
    start, title = _front_matter(lines)
    body = lines[start:]
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    environment: dict[str, object] = {}
    tokens = parser.parse("\n".join(body), environment)
    blocks: list[Block] = []
    position = 0
    for at, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        first, last = token.map
        # What no token covers, such as link definitions, is text too.
        blocks.extend(_passages(body[position:first]))
        if token.type == "heading_open":
            blocks.extend(_heading(token, tokens[at + 1], parser, environment))
        elif token.type == "html_block" and _HTML_HEADING.search(token.content):
            blocks.extend(read_html(token.content).blocks)
        else:
            blocks.extend(_passages(body[first:last]))
        position = max(position, last)
    blocks.extend(_passages(body[position:]))
    return ParsedDocument(blocks, title)


def _front_matter(lines: list[str]) -> tuple[int, str | None]:
    """Return where the text begins, and the title that the front matter states."""
    if not lines or lines[0].rstrip() not in _FRONT_MATTER:
        return 0, None
    entry, ends = _FRONT_MATTER[lines[0].rstrip()]
    title = None
    for number, line in enumerate(lines[1 : FRONT_MATTER_LINES_MAX + 1], start=1):
        if line.rstrip() in ends:
            return (number + 1, title) if number > 1 else (0, None)
        if number == 1 and not re.match(entry, line):
            return 0, None
        if stated := _TITLE.match(line):
            title = stated[1].strip().strip("\"'").strip() or None
    return 0, None


def _passages(lines: list[str]) -> Iterator[Passage]:
    text = "\n".join(lines).strip("\n").rstrip()
    if text.strip():
        yield Passage(text)


def _heading(
    opening: Token, inline: Token, parser: MarkdownIt, environment: dict[str, object]
) -> Iterator[Block]:
    level = int(opening.tag[1:])
    text = _ATTRIBUTES.sub("", inline.content)
    # Inline marks of a text that is too long for a heading could take quadratic time.
    if len(text) <= HEADING_CHARACTERS_MAX:
        parsed: list[Token] = []
        parser.inline.parse(text, parser, environment, parsed)
        text = "".join(map(_plain, parsed))
    block = heading_or_passage(level, text)
    if block is None and inline.content.strip():
        block = Heading(level, inline.content.strip()[:HEADING_CHARACTERS_MAX])
    if block is not None:
        yield block


def _plain(token: Token) -> str:
    match token.type:
        case "softbreak" | "hardbreak":
            return " "
        case "html_inline":
            return ""
        case _:
            return token.content
