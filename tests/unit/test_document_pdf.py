"""PDF: headings by tags, outline and type; headers and footers left out; hostile files refused."""

from __future__ import annotations

import zlib

import pytest
from fpdf import FPDF

from job_worker.handlers.documents.blocks import Heading, Passage, UnreadableDocument
from job_worker.handlers.documents.pdf import PDF_STREAM_BYTES_MAX, read_pdf
from tests.support.pdf_files import SENTENCES, bytes_of, one_page, paper, written

LONG = "Chapter about engines whose heading is so long that it has to be broken into two lines here"


def headings(content: bytes) -> list[tuple[int, str]]:
    return [(block.level, block.text) for block in read_pdf(content).blocks if isinstance(block, Heading)]


def passages(content: bytes) -> list[str]:
    return [block.text for block in read_pdf(content).blocks if isinstance(block, Passage)]


def refusal(content: bytes) -> str:
    with pytest.raises(UnreadableDocument) as refused:
        read_pdf(content)
    return refused.value.code


def test_larger_type_makes_headings_and_size_their_level() -> None:
    document = paper()
    document.heading("The Manual", 24)
    for chapter in ("First", LONG, "Last"):
        document.heading(chapter, 18)
        document.paragraph()
        document.heading("Details", 14)
        document.paragraph()

    assert headings(bytes_of(document)) == [
        (1, "The Manual"),
        *((2, "First"), (3, "Details"), (2, LONG), (3, "Details"), (2, "Last"), (3, "Details")),
    ]


def test_short_texts_do_not_turn_the_headings_into_the_body() -> None:
    document = FPDF()
    document.add_page()
    for text, size in (
        ("Report", 24),
        ("What we found out", 16),
        ("Little.", 11),
        ("What to do", 16),
        ("Wait", 11),
    ):
        document.set_font("Helvetica", "B" if size > 11 else "", size)
        document.cell(0, 10, text, new_x="LMARGIN", new_y="NEXT")

    assert headings(bytes_of(document)) == [(1, "Report"), (2, "What we found out"), (2, "What to do")]


def test_bold_lines_are_headings_and_their_numbers_say_how_deep() -> None:
    document = paper()
    for text in ("1 Introduction", "1.1 Reasons", "1.2 Aims", "2 Design"):
        document.heading(text, 11)
        document.paragraph()

    assert headings(bytes_of(document)) == [
        *((1, "1 Introduction"), (2, "1.1 Reasons"), (2, "1.2 Aims"), (1, "2 Design")),
    ]


def test_bold_words_and_table_heads_in_a_text_are_no_headings() -> None:
    document = paper()
    document.set_font("Helvetica", "", 11)
    document.multi_cell(0, 5, f"**Bold** {SENTENCES * 3}", markdown=True, new_x="LMARGIN", new_y="NEXT")
    document.ln(5)
    for style, cells in (("B", ("Name", "Value")), ("", ("lease", "30 s"))):
        document.set_font("Helvetica", style, 11)
        document.cell(80, 8, cells[0])
        document.cell(80, 8, cells[1], new_x="LMARGIN", new_y="NEXT")

    assert headings(bytes_of(document)) == []
    assert "Name Value" in passages(bytes_of(document))[-1]


def test_a_number_that_differs_does_not_make_two_chapters_openings_a_header() -> None:
    document = FPDF()
    for number in (1, 2, 3):
        document.add_page()
        document.set_font("Helvetica", "B", 20)
        document.cell(0, 10, f"Chapter {number}", new_x="LMARGIN", new_y="NEXT")
        document.set_font("Helvetica", "", 11)
        document.multi_cell(0, 6, SENTENCES * 3)

    assert headings(bytes_of(document)) == [(1, "Chapter 1"), (1, "Chapter 2"), (1, "Chapter 3")]


def test_headers_footers_and_page_numbers_are_left_out() -> None:
    document = paper()
    for number in range(6):
        document.heading(f"Chapter {number}", 16)
        document.paragraph(SENTENCES * 20)
    content = bytes_of(document)
    text = "\n".join(passages(content))

    assert document.page_no() >= 3
    assert headings(content) == [(1, f"Chapter {number}") for number in range(6)]
    assert "Page" not in text
    assert "Manual" not in text


def test_entries_of_a_table_of_contents_are_no_headings() -> None:
    document = paper()
    document.heading("Contents", 16)
    for entry in ("Introduction . . . . . . . . 1", "Design ........................ 2"):
        document.heading(entry, 13)
    document.paragraph()

    assert headings(bytes_of(document)) == [(1, "Contents")]


def test_the_outline_names_headings_that_are_set_like_text() -> None:
    document = paper()
    for title, level in (("Alpha", 0), ("Beta", 1), ("Gamma", 0)):
        document.start_section(title, level=level)
        document.paragraph(title)
        document.paragraph()

    assert headings(bytes_of(document)) == [(1, "Alpha"), (2, "Beta"), (1, "Gamma")]


def test_headings_that_the_outline_leaves_out_are_found_beside_it() -> None:
    document = paper()
    document.heading("The Manual", 24)
    for title in ("Alpha", "Beta"):
        document.start_section(title)
        document.heading(title, 16)
        document.paragraph()
        document.heading("Unlisted", 13)
        document.paragraph()

    assert headings(bytes_of(document)) == [
        *((0, "The Manual"), (1, "Alpha"), (2, "Unlisted"), (1, "Beta"), (2, "Unlisted")),
    ]


def test_a_bookmark_whose_title_is_not_on_the_page_still_makes_a_heading() -> None:
    document = paper()
    document.paragraph("Before it.")
    document.start_section("Invisible")
    document.paragraph("After it.")

    assert read_pdf(bytes_of(document)).blocks[-2:] == [Heading(1, "Invisible", 1), Passage("After it.", 1)]


def test_tags_name_headings_outright_and_artifacts_are_left_out() -> None:
    content = one_page(
        b"/Artifact BMC BT /F2 30 Tf 50 800 Td (Running header) Tj ET EMC\n"
        b"/H1 <</MCID 0>> BDC BT /F1 12 Tf 50 700 Td (Plain) Tj 0 -14 Td (heading) Tj ET EMC\n"
        b"/P <</MCID 1>> BDC BT /F2 20 Tf 50 600 Td (Large bold text) Tj ET EMC\n",
        structure={
            "root": b"<< /Type /StructTreeRoot /K 8 0 R /RoleMap << /Heading2 /H2 >> >>",
            "document": b"<< /S /Document /P 7 0 R /K [9 0 R 10 0 R] >>",
            "heading": b"<< /S /Heading2 /P 8 0 R /Pg 3 0 R /K 0 >>",
            "paragraph": b"<< /S /P /P 8 0 R /Pg 3 0 R /K [<< /Type /MCR /MCID 1 >>] >>",
        },
    )

    assert read_pdf(content).blocks == [Heading(2, "Plain heading", 1), Passage("Large bold text", 1)]


def test_pages_are_counted_and_progress_is_told_after_each() -> None:
    document = paper()
    document.paragraph("one")
    document.add_page()
    document.paragraph("two")
    told: list[tuple[int, int]] = []

    parsed = read_pdf(bytes_of(document), on_progress=lambda done, total: told.append((done, total)))

    assert told == [(1, 2), (2, 2)]
    assert parsed.pages == 2
    assert [(block.text, block.page) for block in parsed.blocks] == [("one", 1), ("two", 2)]


def test_what_the_progress_raises_ends_the_parsing() -> None:
    def stop(done: int, total: int) -> None:
        raise KeyError(done)

    with pytest.raises(KeyError):
        read_pdf(bytes_of(paper()), on_progress=stop)


def test_a_page_without_text_gives_nothing() -> None:
    assert read_pdf(one_page(b"0 0 100 100 re f")).blocks == []


def test_the_title_is_the_documents_own_unless_it_says_nothing() -> None:
    document = paper()
    document.set_title("The Manual")
    untitled = paper()
    untitled.set_title("Microsoft Word - manual.docx")

    assert read_pdf(bytes_of(document)).title == "The Manual"
    assert read_pdf(bytes_of(untitled)).title is None


def test_a_password_is_asked_for_by_name() -> None:
    document = paper()
    document.set_encryption(owner_password="owner", user_password="user")

    assert refusal(bytes_of(document)) == "INPUT_ENCRYPTED"


def test_a_file_that_anyone_may_open_is_read_though_it_is_encrypted() -> None:
    document = paper()
    document.paragraph("Words for all.")
    document.set_encryption(owner_password="owner")

    assert passages(bytes_of(document))[-1] == "Words for all."


def test_a_file_that_was_cut_off_is_broken() -> None:
    document = paper()
    document.paragraph()
    content = bytes_of(document)

    assert {refusal(content[: len(content) * part // 4]) for part in (1, 2, 3)} == {"INPUT_BROKEN"}


def test_a_file_without_pages_is_broken() -> None:
    assert refusal(written([b"<< /Type /Catalog >>"])) == "INPUT_BROKEN"
    assert refusal(b"%PDF-1.4\nstartxref\n0\n%%EOF") == "INPUT_BROKEN"


def test_a_stream_that_unpacks_without_end_is_refused() -> None:
    bomb = zlib.compress(bytes(PDF_STREAM_BYTES_MAX + 1), 9)

    assert refusal(one_page(bomb, Filter="/FlateDecode")) == "INPUT_TOO_LARGE"


def test_too_many_pages_are_refused() -> None:
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>"
    kids = b" ".join(b"%d 0 R" % number for number in range(3, 2_004))
    pages = b"<< /Type /Pages /Count 2001 /Kids [%s] >>" % kids

    assert (
        refusal(written([b"<< /Type /Catalog /Pages 2 0 R >>", pages, *[page] * 2_001])) == "INPUT_TOO_LARGE"
    )


def test_refusals_hold_no_word_of_the_library_or_the_machine() -> None:
    with pytest.raises(UnreadableDocument) as refused:
        read_pdf(b"%PDF-1.4\nstartxref\n0\n%%EOF")

    assert refused.value.message == "The PDF is damaged: its structure can't be read."
