"""The job type `document_import`: what it takes, what it gives, how it fails and stops."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from fpdf import FPDF
from pydantic import ValidationError

from job_worker.executor.handler import Cancelled, Document, HandlerFailure, JobContext
from job_worker.handlers.document_import import import_document
from shared.catalog.definition import faults_of
from shared.catalog.document_import import (
    DEFINITION,
    ITEM_CHARACTERS_MAX,
    DocumentImportInput,
    DocumentImportOutput,
)
from shared.domain.identity import JobId, LeaseToken
from tests.support.pdf_files import bytes_of, paper

MARKDOWN = "# Guide\n\nWords.\n\n## Empty\n\n## Last\n\nMore words."


@dataclass(slots=True)
class Told:
    """Keeps what a handler says; cancels the attempt after so many words, if asked to."""

    cancel_after: int | None = None
    context: JobContext | None = None
    words: list[tuple[int, str]] = field(default_factory=list)
    lease_uncertain: bool = False

    def progress(self, percent: int, message: str) -> None:
        self.words.append((percent, message))
        if self.context is not None and len(self.words) == self.cancel_after:
            self.context.cancel()

    async def piece(self, text: str, cancelled: asyncio.Event) -> None:
        raise NotImplementedError


def context(told: Told | None = None, document: Document | None = None) -> JobContext:
    told = told or Told()
    told.context = JobContext(
        job_id=JobId(uuid4()),
        attempt=1,
        token=LeaseToken("1.x"),
        time_left=timedelta(seconds=60),
        outlet=told,
        document=document,
    )
    return told.context


async def imported(document: Document | None = None, /, **request: Any) -> DocumentImportOutput:
    return import_document(
        context(document=document), DocumentImportInput.model_validate_json(json.dumps(request))
    )


async def failure(document: Document | None = None, /, **request: Any) -> HandlerFailure:
    with pytest.raises(HandlerFailure) as failed:
        await imported(document, **request)
    return failed.value


def three_pages() -> bytes:
    document = paper()
    for number in (1, 2, 3):
        document.heading(f"Chapter {number}", 18)
        document.paragraph()
        if number < 3:
            document.add_page()
    return bytes_of(document)


def test_the_definition_has_no_faults() -> None:
    assert list(faults_of(DEFINITION)) == []


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"text": "a", "upload_id": str(uuid4())},
        {"text": "a", "content_base64": "YQ=="},
        {"text": "a", "format": "docx"},
        {"text": "a", "format": "pdf"},
        {"text": "a", "colour": "red"},
        {"text": 1},
        {"content_base64": "not base64!"},
        {"upload_id": "not an id"},
        {"text": "a", "title": ""},
    ],
)
def test_an_input_that_is_not_one_document_is_refused(request_: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DocumentImportInput.model_validate_json(json.dumps(request_))


def test_an_input_survives_both_ways_of_validation() -> None:
    upload_id = uuid4()

    for given in ({"upload_id": str(upload_id)}, {"upload_id": upload_id}):
        assert DocumentImportInput.model_validate(given).upload_id == UUID(str(upload_id))
    assert DocumentImportInput(content_base64="YW\nJj\n").content() == b"abc"


async def test_items_are_numbered_counted_and_hashed() -> None:
    output = await imported(text=MARKDOWN)

    assert [(item.ordinal, item.heading_path, item.text) for item in output.items] == [
        (1, ["Guide"], "Words."),
        (2, ["Guide", "Empty"], "Empty"),
        (3, ["Guide", "Last"], "More words."),
    ]
    assert [item.characters for item in output.items] == [6, 5, 11]
    assert output.items[0].sha256 == hashlib.sha256(b"Words.").hexdigest()
    assert (output.title, output.format, output.pages, output.sections, output.characters) == (
        *("Guide", "markdown", None, 3, 22),
    )


async def test_text_base64_and_upload_give_the_same() -> None:
    content = MARKDOWN.encode()
    upload = Document(content, "text/markdown", "guide.md")

    assert (
        await imported(text=MARKDOWN)
        == await imported(content_base64=base64.b64encode(content).decode())
        == await imported(upload, upload_id=str(uuid4()))
    )


async def test_a_pdf_says_on_which_page_an_item_is() -> None:
    output = await imported(Document(three_pages(), "application/pdf", "manual.pdf"), upload_id=str(uuid4()))

    assert [(item.heading_path, item.page) for item in output.items][-3:] == [
        *((["Chapter 1"], 1), (["Chapter 2"], 2), (["Chapter 3"], 3)),
    ]
    assert (output.format, output.pages, output.sections) == ("pdf", 3, 3)


@pytest.mark.parametrize("kind", ["text", "markdown", "html"])
async def test_an_empty_document_succeeds_with_no_items(kind: str) -> None:
    assert (await imported(text="", format=kind)).items == []
    assert (await imported(text=" \n\t\n", format=kind)).items == []


async def test_an_empty_pdf_succeeds_with_no_items() -> None:
    blank = FPDF()
    blank.add_page()

    output = await imported(Document(bytes_of(blank), "", "blank.pdf"), upload_id=str(uuid4()))

    assert (output.items, output.pages, output.title) == ([], 1, "blank")


async def test_a_long_section_is_cut_into_items_of_limited_size() -> None:
    output = await imported(text="# A\n\n" + "A sentence of words. " * 1_000)

    assert len(output.items) > 4
    assert max(item.characters for item in output.items) <= ITEM_CHARACTERS_MAX
    assert {tuple(item.heading_path) for item in output.items} == {("A",)}


async def test_the_title_is_the_given_one_then_the_own_one_then_a_heading_then_the_files_name() -> None:
    page = "<title>Own</title><h1>Heading</h1>"

    assert (await imported(text=page, format="html", title="Given")).title == "Given"
    assert (await imported(text=page, format="html")).title == "Own"
    assert (await imported(text="<h1>Heading</h1>", format="html")).title == "Heading"
    assert (await imported(Document(b"x", "", "notes.txt"), upload_id=str(uuid4()))).title == "notes"
    assert (await imported(text="x")).title is None


async def test_what_cannot_be_read_fails_for_good_with_a_sentence() -> None:
    cut_off = await failure(Document(three_pages()[:900], "application/pdf", "a.pdf"), upload_id=str(uuid4()))
    mislabelled = await failure(content_base64=base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), format="pdf")
    missing = await failure(None, upload_id=str(uuid4()))

    assert [failed.code for failed in (cut_off, mislabelled, missing)] == [
        *("INPUT_BROKEN", "INPUT_WRONG_FORMAT", "INPUT_MISSING"),
    ]
    assert mislabelled.message == "The file is labelled as a PDF, but it is a PNG picture."


async def test_progress_goes_up_by_pages_and_then_by_items() -> None:
    told = Told()
    request = DocumentImportInput(content_base64=base64.b64encode(three_pages()).decode())

    import_document(context(told), request)

    percents = [percent for percent, _ in told.words]
    assert told.words[:3] == [(30, "page 1 of 3"), (60, "page 2 of 3"), (90, "page 3 of 3")]
    assert percents == sorted(set(percents))
    assert percents[-1] >= 99


async def test_a_cancelled_import_stops_at_the_next_page() -> None:
    told = Told(cancel_after=1)
    request = DocumentImportInput(content_base64=base64.b64encode(three_pages()).decode())

    with pytest.raises(Cancelled):
        import_document(context(told), request)

    assert told.words == [(30, "page 1 of 3")]
