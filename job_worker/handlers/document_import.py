"""The handler of `document_import`: one document in, knowledge items out."""

from __future__ import annotations

import hashlib
from pathlib import PurePath

from job_worker.executor.handler import HandlerFailure, JobContext
from job_worker.handlers.documents.blocks import Heading, ParsedDocument, UnreadableDocument, clean, one_line
from job_worker.handlers.documents.reading import Source, read
from job_worker.handlers.documents.sections import items
from shared.catalog.document_import import (
    ITEM_CHARACTERS_MAX,
    TITLE_CHARACTERS_MAX,
    DocumentImportInput,
    DocumentImportOutput,
    KnowledgeItem,
)

PARSING_PERCENT = 90
"""How much of the progress is reading pages; the rest is cutting them into items."""


def import_document(context: JobContext, request: DocumentImportInput) -> DocumentImportOutput:
    """Read the document into items; plain, since parsing computes and waits for nothing.

    Raises:
        HandlerFailure: `INPUT_…`: the document can't be read, now or later.
        Cancelled: The work was told to stop.
    """
    progress = _Progress(context)
    source = _source(context, request)
    try:
        kind, document = read(source, on_progress=progress.pages)
    except UnreadableDocument as unreadable:
        raise HandlerFailure(unreadable.code, unreadable.message) from None
    found = _items(document, progress)
    return DocumentImportOutput(
        title=_title(request, document, source.file_name),
        format=kind,
        pages=document.pages,
        sections=sum(isinstance(block, Heading) for block in document.blocks),
        characters=sum(item.characters for item in found),
        items=found,
    )


class _Progress:
    """Reports each percent once, and stops the work when it is told to."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._reported = -1

    def pages(self, done: int, total: int) -> None:
        self._report(done * PARSING_PERCENT // total, f"page {done} of {total}")

    def items(self, done: int, share: float) -> None:
        """Report `done` items, which hold about the given share of the text."""
        self._report(PARSING_PERCENT + int(min(share, 1.0) * (100 - PARSING_PERCENT)), f"{done} items")

    def _report(self, percent: int, message: str) -> None:
        self._context.raise_if_cancelled()
        if percent > self._reported:
            self._reported = percent
            self._context.report_progress(percent, message)


def _source(context: JobContext, request: DocumentImportInput) -> Source:
    if request.text is not None:
        return Source(request.text, request.format)
    content = request.content()
    if content is not None:
        return Source(content, request.format)
    upload = context.document()
    if upload is None:
        raise HandlerFailure("INPUT_MISSING", "The uploaded file is no longer there. Upload it again.")
    return Source(upload.content, request.format, upload.media_type, upload.file_name)


def _items(document: ParsedDocument, progress: _Progress) -> list[KnowledgeItem]:
    total = sum(len(block.text) for block in document.blocks)
    found: list[KnowledgeItem] = []
    characters = 0
    for ordinal, item in enumerate(items(document.blocks, characters_max=ITEM_CHARACTERS_MAX), start=1):
        found.append(
            KnowledgeItem(
                ordinal=ordinal,
                heading_path=list(item.heading_path),
                text=item.text,
                characters=len(item.text),
                sha256=hashlib.sha256(item.text.encode()).hexdigest(),
                page=item.page,
            )
        )
        characters += len(item.text)
        progress.items(ordinal, characters / total)
    return found


def _title(request: DocumentImportInput, document: ParsedDocument, file_name: str) -> str | None:
    heading = next((block.text for block in document.blocks if isinstance(block, Heading)), None)
    title = request.title or document.title or heading or PurePath(file_name).stem
    return one_line(clean(title))[:TITLE_CHARACTERS_MAX] or None
