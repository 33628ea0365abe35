"""PDF: text by page, headings by tags, outline or type. Hostile files meet a limit, or the job's deadline."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import pairwise
from statistics import median

from pypdf import Configuration, PasswordType, PdfReader, apply_configuration
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

from job_worker.handlers.documents.blocks import (
    Block,
    OnProgress,
    ParsedDocument,
    Passage,
    UnreadableDocument,
    clean,
    one_line,
)
from job_worker.handlers.documents.pdf_furniture import in_margin, without_furniture
from job_worker.handlers.documents.pdf_headings import Found, body_style, headings
from job_worker.handlers.documents.pdf_lines import Line, page_lines
from job_worker.handlers.documents.pdf_structure import bookmarks, heading_marks

PDF_PAGES_MAX = 2_000
"""Pages: at 20 to 50 ms each, what an import's time allows."""

PDF_STREAM_BYTES_MAX = 32 * 1024 * 1024
"""Bytes that one stream may unpack to: as much as a whole upload, and far more than a page's text takes."""

PDF_STREAM_WORK_BYTES_MAX = 4 * PDF_STREAM_BYTES_MAX
"""Bytes that all filters of one stream may put out together; a few filters in a row are usual."""

PDF_OPERATIONS_MAX = 1_000_000
"""Operators and operands on one page: a dense map has some hundred thousand, and they take seconds."""

PDF_FORMS_MAX = 1_000
"""Forms drawn on one page, by which a small file could repeat a text without end."""

PDF_CHARACTERS_MAX = 8_000_000
"""Characters in all: eight times what an output can hold, so that memory stays bounded."""

_LIMITS = Configuration(
    maximum_declared_stream_length=PDF_STREAM_BYTES_MAX,
    array_based_stream_maximum_output_length=PDF_STREAM_BYTES_MAX,
    lzw_maximum_output_length=PDF_STREAM_BYTES_MAX,
    run_length_maximum_output_length=PDF_STREAM_BYTES_MAX,
    zlib_maximum_output_length=PDF_STREAM_BYTES_MAX,
    brotli_maximum_output_length=PDF_STREAM_BYTES_MAX,
    stream_decoding_work_maximum_length=PDF_STREAM_WORK_BYTES_MAX,
    stream_parsing_work_maximum_count=PDF_OPERATIONS_MAX,
    xform_maximum_invocations_per_extraction=PDF_FORMS_MAX,
    jbig2dec_binary=None,  # no picture is decoded, and no program started
)
_NO_TITLE = re.compile(
    r"\(?(?:untitled|anonymous|unspecified|title)\)?|microsoft word - .*|.*\.\w{2,4}", re.IGNORECASE
)
_PARAGRAPH_GAP = 1.25

# It tells of each fault that it mends, in the file's own words.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


def read_pdf(content: bytes, *, on_progress: OnProgress = lambda done, total: None) -> ParsedDocument:
    """Read a PDF; scanned pages have no text, and give nothing.

    Raises:
        UnreadableDocument: `INPUT_BROKEN`, `INPUT_ENCRYPTED` or `INPUT_TOO_LARGE`.
    """
    if b"startxref" not in content:
        raise _broken("its end is missing, so it was probably cut off on its way")
    with apply_configuration(_LIMITS):
        reader, pages = _opened(content)
        lines = list(_lines(reader, pages, on_progress))
        with _faults_named("its contents can't be read"):
            body = body_style([line for line in lines if not in_margin(line)] or lines)
            lines = without_furniture(lines, body_size=body[0])
            blocks = list(_blocks(lines, headings(lines, bookmarks(reader), body)))
            return ParsedDocument(blocks, _title(reader), pages)


def _opened(content: bytes) -> tuple[PdfReader, int]:
    with _faults_named("its structure can't be read"):
        reader = PdfReader(BytesIO(content))
        if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
            raise _encrypted()
        pages = len(reader.pages)
    if not pages:
        raise _broken("it has no pages")
    if pages > PDF_PAGES_MAX:
        raise UnreadableDocument(
            "INPUT_TOO_LARGE", f"The PDF has {pages:,} pages; {PDF_PAGES_MAX:,} are the most. Split it."
        )
    return reader, pages


def _lines(reader: PdfReader, pages: int, on_progress: OnProgress) -> Iterator[Line]:
    with _faults_named("its structure can't be read"):
        marks = heading_marks(reader)
    characters = 0
    for number in range(1, pages + 1):
        with _faults_named(f"page {number} can't be read"):
            page = reader.pages[number - 1]
            reference = page.indirect_reference
            found = page_lines(page, number, marks.get(reference.idnum, {}) if reference else {})
        characters += sum(len(line.text) for line in found)
        if characters > PDF_CHARACTERS_MAX:
            raise UnreadableDocument(
                "INPUT_TOO_LARGE", "The PDF holds more text than can be imported. Split it."
            )
        yield from found
        on_progress(number, pages)


@contextmanager
def _faults_named(fault: str) -> Iterator[None]:
    """Turn whatever the library raises into a sentence for the document's owner."""
    try:
        yield
    except UnreadableDocument:
        raise
    except (DependencyError, FileNotDecryptedError):
        raise _encrypted() from None
    except (LimitReachedError, MemoryError):
        raise UnreadableDocument("INPUT_TOO_LARGE", "The PDF unpacks to more than can be imported.") from None
    except Exception:  # noqa: BLE001 - broken files raise anything, as the library's own page on errors says
        raise _broken(fault) from None


def _blocks(lines: list[Line], found: list[Found]) -> Iterator[Block]:
    gap = _usual_gap(lines)
    position = 0
    for one in found:
        yield from _paragraphs(lines[position : one.first], gap)
        yield one.heading
        position = max(position, one.end)
    yield from _paragraphs(lines[position:], gap)


def _usual_gap(lines: list[Line]) -> float:
    gaps = [
        above.y - line.y
        for above, line in pairwise(lines)
        if above.page == line.page and above.size == line.size and 0 < above.y - line.y < 3 * line.size
    ]
    return median(gaps) if gaps else 0.0


def _paragraphs(lines: list[Line], gap: float) -> Iterator[Passage]:
    first = 0
    for end in range(1, len(lines) + 1):
        if end < len(lines) and not _parted(lines[end - 1], lines[end], gap):
            continue
        yield Passage("\n".join(line.text for line in lines[first:end]), lines[first].page)
        first = end


def _parted(above: Line, line: Line, gap: float) -> bool:
    down = above.y - line.y
    return above.page != line.page or down < 0 or down > max(gap, line.size) * _PARAGRAPH_GAP


def _title(reader: PdfReader) -> str | None:
    title = one_line(clean(str((reader.metadata and reader.metadata.title) or "")))
    return None if not title or _NO_TITLE.fullmatch(title) else title


def _broken(fault: str) -> UnreadableDocument:
    return UnreadableDocument("INPUT_BROKEN", f"The PDF is damaged: {fault}.")


def _encrypted() -> UnreadableDocument:
    return UnreadableDocument("INPUT_ENCRYPTED", "The PDF is protected by a password. Save it without one.")
