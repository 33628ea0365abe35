"""From a document in any of the four formats to its blocks: decide the format, decode, parse."""

from __future__ import annotations

import re
from dataclasses import dataclass

from job_worker.handlers.documents.blocks import OnProgress, ParsedDocument
from job_worker.handlers.documents.decode import decoded
from job_worker.handlers.documents.html import declared_charset, read_html
from job_worker.handlers.documents.markdown import read_markdown
from job_worker.handlers.documents.pdf import read_pdf
from job_worker.handlers.documents.sniff import HEAD_BYTES, decide_format, text_format
from job_worker.handlers.documents.text import read_text
from shared.catalog.document_import import DocumentFormat

_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_READ_TEXT = {"text": read_text, "markdown": read_markdown, "html": read_html}


@dataclass(frozen=True, slots=True)
class Source:
    """A document as it was given; what says nothing is None or empty.

    Attributes:
        content: Text if it was given as text, else the file's bytes.
        declared: The format that the caller states.
    """

    content: str | bytes
    declared: DocumentFormat | None = None
    media_type: str = ""
    file_name: str = ""


def read(source: Source, *, on_progress: OnProgress) -> tuple[DocumentFormat, ParsedDocument]:
    """Read a document of whatever format.

    Raises:
        UnreadableDocument: With a code `INPUT_…`: it can't be read, now or later.
    """
    content = source.content
    if isinstance(content, str):
        kind = source.declared or text_format(content[:HEAD_BYTES])
        return kind, _READ_TEXT[kind](content)
    kind = decide_format(
        content, declared=source.declared, media_type=source.media_type, file_name=source.file_name
    )
    if kind == "pdf":
        return kind, read_pdf(content, on_progress=on_progress)
    stated = _CHARSET.search(source.media_type)
    charset = stated[1] if stated else None
    if charset is None and kind == "html":
        charset = declared_charset(content)
    return kind, _READ_TEXT[kind](decoded(content, declared=charset))
