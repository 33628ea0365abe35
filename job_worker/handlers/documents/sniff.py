"""Decides what a document is read as, and refuses what its label cannot mean."""

from __future__ import annotations

import re
from pathlib import PurePath

from job_worker.handlers.documents.blocks import UnreadableDocument
from job_worker.handlers.documents.decode import looks_binary
from shared.catalog.document_import import DocumentFormat

HEAD_BYTES = 4_096
"""Bytes at the start that tell what a file is; a PDF's mark may stand in the first 1,024."""

NAMES: dict[DocumentFormat, str] = {
    "text": "plain text",
    "markdown": "Markdown",
    "html": "an HTML page",
    "pdf": "a PDF",
}

_MEDIA_TYPES: dict[str, DocumentFormat] = {
    "application/pdf": "pdf",
    "application/x-pdf": "pdf",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/plain": "text",
}
_SUFFIXES: dict[str, DocumentFormat] = {
    ".pdf": "pdf",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdown": "markdown",
    ".txt": "text",
    ".text": "text",
}
_SAYS_NOTHING = frozenset({"", "application/octet-stream", "binary/octet-stream"})
_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "a PNG picture"),
    (re.compile(rb"\xff\xd8\xff"), "a JPEG picture"),
    (re.compile(rb"GIF8[79]a"), "a GIF picture"),
    (re.compile(rb"II\*\x00|MM\x00\*"), "a TIFF picture"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "a WebP picture"),
    (re.compile(rb"PK\x03\x04.{26}mimetypeapplication/epub", re.DOTALL), "an e-book (EPUB)"),
    (re.compile(rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis", re.DOTALL), "an OpenDocument file"),
    (
        re.compile(rb"PK\x03\x04.{26}(?:\[Content_Types\]|_rels/|word/|xl/|ppt/)", re.DOTALL),
        "an Office document",
    ),
    (re.compile(rb"PK(?:\x03\x04|\x05\x06|\x07\x08)"), "a ZIP archive"),
    (re.compile(rb"\x1f\x8b"), "a gzip archive"),
    (re.compile(rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|BZh[1-9]1AY|\xfd7zXZ\x00"), "an archive"),
    (re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "an old Office document"),
    (re.compile(rb"\{\\rtf"), "an RTF document"),
    (re.compile(rb"%!PS"), "a PostScript document"),
    (re.compile(rb"\x7fELF|MZ.{58}", re.DOTALL), "a program"),
)
_PDF_MARK = re.compile(rb"%PDF-\d")
_HTML_START = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_MARKDOWN_HEADING = re.compile(r"^ {0,3}#{1,6} +\S", re.MULTILINE)


def decide_format(
    content: bytes, *, declared: DocumentFormat | None = None, media_type: str = "", file_name: str = ""
) -> DocumentFormat:
    """Return what to read `content` as: by declaration, media type, file name, content, in this order.

    A label that the content can live with is believed: Markdown may be read as plain text.

    Raises:
        UnreadableDocument: `INPUT_WRONG_FORMAT`: the label says one thing and the content is another, or
            it is nothing that can be imported.
    """
    found = _binary_kind(content)
    label = declared or _labelled(media_type, file_name)
    if label is None:
        if found == NAMES["pdf"]:
            return "pdf"
        if found is not None:
            raise _wrong(f"The file is {found}. Plain text, Markdown, HTML and PDF can be imported.")
        return text_format(content[:HEAD_BYTES].decode("utf-8", "ignore"))
    if label == "pdf" and not content:
        raise UnreadableDocument("INPUT_BROKEN", "The PDF is empty: not a single byte of it arrived.")
    if label == "pdf" and found != NAMES["pdf"]:
        actual = found or NAMES[text_format(content[:HEAD_BYTES].decode("utf-8", "ignore"))]
        raise _wrong(f"The file is labelled as a PDF, but it is {actual}.")
    if label != "pdf" and found is not None:
        raise _wrong(f"The file is labelled as {NAMES[label]}, but it is {found}.")
    return label


def text_format(head: str) -> DocumentFormat:
    """Tell from its first characters what a text without a label is."""
    if _HTML_START.match(head.encode("utf-8", "ignore")):
        return "html"
    return "markdown" if _MARKDOWN_HEADING.search(head) else "text"


def _labelled(media_type: str, file_name: str) -> DocumentFormat | None:
    kind = media_type.partition(";")[0].strip().lower()
    by_name = _SUFFIXES.get(PurePath(file_name).suffix.lower())
    # Many tools call every text plain; the name knows better.
    if kind == "text/plain" and by_name in {"markdown", "html"}:
        return by_name
    if kind in _MEDIA_TYPES:
        return _MEDIA_TYPES[kind]
    if kind not in _SAYS_NOTHING and not kind.startswith("text/") and by_name is None:
        raise _wrong(
            "The file's media type is none that can be imported: plain text, Markdown, HTML and PDF can."
        )
    return by_name


def _binary_kind(content: bytes) -> str | None:
    """Name what `content` is if it is not text."""
    head = content[:HEAD_BYTES]
    for signature, name in _SIGNATURES:
        if signature.match(head):
            return name if name != "a program" or looks_binary(head) else None
    mark = _PDF_MARK.search(head, 0, 1024)
    if mark and (mark.start() == 0 or looks_binary(content) or b"startxref" in content[-2048:]):
        return NAMES["pdf"]
    return "a file of some binary format" if looks_binary(content) else None


def _wrong(message: str) -> UnreadableDocument:
    return UnreadableDocument("INPUT_WRONG_FORMAT", message)
