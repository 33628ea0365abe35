"""What holds of any document whatever: no parser breaks, nothing is lost, order is kept."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from job_worker.handlers.documents.blocks import Heading, UnreadableDocument
from job_worker.handlers.documents.reading import Source, read
from job_worker.handlers.documents.sections import items
from shared.catalog.document_import import DocumentFormat
from tests.support.pdf_files import bytes_of, one_page, paper

FORMATS: list[DocumentFormat] = ["text", "markdown", "html", "pdf"]
LABELS = st.one_of(st.none(), st.sampled_from(FORMATS))
WORDS = st.text("abcxyzäß0189-_*`#<>[]()!&;:.", min_size=1, max_size=12)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
CODE = st.lists(TEXTS, max_size=4).map(lambda lines: "\n".join(["~~~", *lines, "~~~"]))
LINES = st.one_of(
    st.builds(lambda level, text: "#" * level + " " + text, st.integers(1, 6), TEXTS),
    st.builds(lambda text: text + "\n===", TEXTS),
    st.builds(lambda text: "- " + text + "\n  - " + text, TEXTS),
    st.builds(lambda text: "> " + text, TEXTS),
    TEXTS,
    CODE,
)
PIECES = [
    "<h1>",
    "</h1>",
    "<p>",
    "</ul>",
    "<li>",
    "<table>",
    "<td>",
    "<pre>",
    "<!--",
    "-->",
    "<title>",
    "x",
    "&lt;",
]


def _told(unreadable: UnreadableDocument) -> list[str]:
    assert unreadable.code.startswith("INPUT_")
    assert unreadable.message.endswith(".")
    return []


def parsed(source: Source) -> list[str]:
    """Read a document; return its texts, none if it is unreadable."""
    try:
        _, document = read(source, on_progress=lambda done, total: None)
    except UnreadableDocument as unreadable:
        return _told(unreadable)
    found = list(items(document.blocks, characters_max=50))
    assert all(0 < len(item.text) <= 50 for item in found)
    return [item.text for item in found]


@given(st.binary(max_size=300), LABELS)
def test_any_bytes_are_read_or_refused(content: bytes, label: DocumentFormat | None) -> None:
    parsed(Source(content, label))


@given(st.text(max_size=300), st.sampled_from(FORMATS[:3]))
def test_any_text_is_read(text: str, label: DocumentFormat) -> None:
    for found in parsed(Source(text, label)):
        found.encode()
        assert "\0" not in found


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_tags_are_read(text: str) -> None:
    parsed(Source(text, "html"))


def _manual() -> bytes:
    document = paper()
    document.start_section("Alpha")
    document.heading("Alpha", 16)
    document.paragraph()
    return bytes_of(document)


TAG = re.compile(r"<[^>]*>")
ENTITY = re.compile(r"&#?\w+;")

FILES = [_manual(), one_page(b"/P <</MCID 0>> BDC BT /F1 12 Tf 50 700 Td (Text) Tj ET EMC")]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FILES), st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=6)), max_size=6))
def test_a_pdf_with_any_fault_is_read_or_refused(content: bytes, faults: list[tuple[int, bytes]]) -> None:
    for place, fault in faults:
        at = place % len(content)
        content = content[:at] + fault + content[at + len(fault) :]

    parsed(Source(content, "pdf"))


@given(st.lists(LINES, max_size=12).map("\n\n".join))
@example("&#0;\n===")
def test_every_word_of_a_markdown_document_is_in_its_items(text: str) -> None:
    _, document = read(Source(text, "markdown"), on_progress=lambda done, total: None)
    found = list(items(document.blocks, characters_max=4_000))
    everything = "\n".join(
        [*(item.text for item in found), *(name for item in found for name in item.heading_path)]
    )

    for word in ENTITY.sub(" ", TAG.sub(" ", text)).split():
        # Marks of headings and inline marks, tags and entities within them are all that may go.
        letters = "".join(character for character in word if character.isalnum())
        assert letters in "".join(character for character in everything if character.isalnum())


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["a", "b", "c"]), st.booleans()), max_size=15))
def test_every_heading_shows_up_in_order(outline: list[tuple[int, str, bool]]) -> None:
    names = [f"{name}{number}" for number, (_, name, _) in enumerate(outline)]
    text = "\n\n".join(
        "#" * level + f" {name}" + ("\n\nwords" if has_text else "")
        for name, (level, _, has_text) in zip(names, outline, strict=True)
    )
    _, document = read(Source(text, "markdown"), on_progress=lambda done, total: None)
    paths = [item.heading_path for item in items(document.blocks, characters_max=100)]
    seen = list(dict.fromkeys(name for path in paths for name in path))

    assert seen == names == [block.text for block in document.blocks if isinstance(block, Heading)]
    assert all(before != after for before, after in pairwise(paths))
