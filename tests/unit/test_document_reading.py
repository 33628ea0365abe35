"""What a document is read as, and in which encoding; and what is refused."""

from __future__ import annotations

import gzip
import io
import zipfile

import pytest

from job_worker.handlers.documents.blocks import Heading, Passage, UnreadableDocument
from job_worker.handlers.documents.decode import decoded
from job_worker.handlers.documents.reading import Source, read
from shared.catalog.document_import import DocumentFormat
from tests.support.pdf_files import bytes_of, one_page, paper

PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)
HTML = b"<!DOCTYPE html><html><body><h1>A</h1>text</body></html>"
UMLAUTS = "Überschrift für größere Straßen \u2013 schön."


def zipped(name: str = "a.txt") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, "text")
    return file.getvalue()


def kind_of(
    content: bytes, declared: DocumentFormat | None = None, media_type: str = "", file_name: str = ""
) -> DocumentFormat:
    return read(Source(content, declared, media_type, file_name), on_progress=lambda done, total: None)[0]


def refusal(source: Source) -> UnreadableDocument:
    with pytest.raises(UnreadableDocument) as refused:
        read(source, on_progress=lambda done, total: None)
    return refused.value


@pytest.mark.parametrize(
    ("content", "declared", "media_type", "file_name", "kind"),
    [
        (b"# A\n", "text", "text/html", "a.md", "text"),
        (b"# A\n", None, "text/markdown", "a.txt", "markdown"),
        (b"# A\n", None, "text/plain", "a.md", "markdown"),
        (b"# A\n", None, "text/plain; charset=utf-8", "", "text"),
        (b"# A\n", None, "application/octet-stream", "README.MD", "markdown"),
        (b"text\n\n## A\n", None, "", "", "markdown"),
        (HTML, None, "", "", "html"),
        (b"<?xml version='1.0'?>\n<!-- x -->\n<html lang='en'></html>", None, "", "", "html"),
        (HTML, "text", "", "", "text"),
        (b"just words", None, "", "a.unknown", "text"),
        (
            b"MZ is how this text begins, and it goes on for a while, longer than sixty bytes.",
            None,
            "",
            "",
            "text",
        ),
        (b"", None, "", "", "text"),
    ],
)
def test_the_format_follows_from_declaration_then_media_type_then_name_then_content(
    content: bytes, declared: DocumentFormat | None, media_type: str, file_name: str, kind: DocumentFormat
) -> None:
    assert kind_of(content, declared, media_type, file_name) == kind


def test_a_pdf_needs_no_label() -> None:
    assert kind_of(bytes_of(paper())) == "pdf"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (Source(one_page(b""), "html"), ("an HTML page", "a PDF")),
        (Source(one_page(b""), None, "text/plain", "a.txt"), ("plain text", "a PDF")),
        (Source(PNG, "pdf"), ("a PDF", "a PNG picture")),
        (Source(PNG, None, "application/pdf"), ("a PDF", "a PNG picture")),
        (Source(zipped(), "text"), ("plain text", "a ZIP archive")),
        (Source(zipped("word/document.xml"), None, "", "a.md"), ("Markdown", "an Office document")),
        (Source(HTML, "pdf"), ("a PDF", "an HTML page")),
        (Source(b"words", None, "", "a.pdf"), ("a PDF", "plain text")),
        (Source(gzip.compress(b"words")), ("a gzip archive", "PDF")),
        (Source(b"text\0with\0nul", "text"), ("plain text", "binary")),
        (Source(b"{}", None, "application/zip", "a.zip"), ("media type", "PDF")),
    ],
)
def test_a_wrong_label_is_refused_with_both_names(source: Source, names: tuple[str, str]) -> None:
    refused = refusal(source)

    assert refused.code == "INPUT_WRONG_FORMAT"
    assert all(name in refused.message for name in names)


def test_an_empty_pdf_file_is_broken() -> None:
    assert refusal(Source(b"", "pdf")).code == "INPUT_BROKEN"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_the_encoding_is_found_out(encoding: str) -> None:
    assert decoded(UMLAUTS.encode(encoding)) == UMLAUTS


def test_a_declared_encoding_is_used() -> None:
    content = "Привет".encode("koi8-r")

    kind, document = read(
        Source(content, None, "text/plain; charset=koi8-r"), on_progress=lambda done, total: None
    )

    assert (kind, document.blocks) == ("text", [Passage("Привет")])


@pytest.mark.parametrize("declared", ["utf-8", "nonsense", "punycode", "base64"])
def test_a_wrong_declaration_is_passed_over(declared: str) -> None:
    assert decoded("größer".encode("cp1252"), declared=declared) == "größer"


def test_an_encoding_that_nothing_fits_is_refused() -> None:
    with pytest.raises(UnreadableDocument) as refused:
        decoded(b"\xff\xfe\x00\xd8\x41")

    assert refused.value.code == "INPUT_ENCODING"


def test_text_that_came_as_text_needs_no_label() -> None:
    def blocks(text: str) -> list[object]:
        return list(read(Source(text), on_progress=lambda done, total: None)[1].blocks)

    assert blocks("# A\n\nb") == [Heading(1, "A"), Passage("b")]
    assert blocks("<html><h1>A</h1>b") == [Heading(1, "A"), Passage("b")]
    assert blocks("a\r\nb\r\n \r\n\r\nc") == [Passage("a\nb"), Passage("c")]
