"""Plain text: paragraphs between blank lines."""

from __future__ import annotations

import re

from job_worker.handlers.documents.blocks import ParsedDocument, Passage, clean

_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")


def read_text(text: str) -> ParsedDocument:
    """Read plain text; it has no headings and no title."""
    paragraphs = (paragraph.strip("\n").rstrip() for paragraph in _BLANK_LINES.split(clean(text)))
    return ParsedDocument([Passage(paragraph) for paragraph in paragraphs if paragraph.strip()])
