"""Markdown: what is a heading, what is not, and that nothing gets lost."""

from __future__ import annotations

from job_worker.handlers.documents.blocks import Heading, Passage
from job_worker.handlers.documents.markdown import read_markdown


def headings(text: str) -> list[tuple[int, str]]:
    return [(block.level, block.text) for block in read_markdown(text).blocks if isinstance(block, Heading)]


def passages(text: str) -> list[str]:
    return [block.text for block in read_markdown(text).blocks if isinstance(block, Passage)]


def test_both_kinds_of_headings_are_found_in_order() -> None:
    text = "# One #\n\nTwo\n---\n\n### Three\nFour\n====\n"

    assert headings(text) == [(1, "One"), (2, "Two"), (3, "Three"), (1, "Four")]


def test_headings_lose_their_marks_and_keep_their_words() -> None:
    text = '# The `baton` *engine*, [linked](http://x "t") & \\*bold\\* <b>x</b> {#anchor}\n'

    assert headings(text) == [(1, "The baton engine, linked & *bold* x")]


def test_hash_signs_in_code_are_no_headings() -> None:
    text = "# A\n\n```sh\n# comment\n```\n\n    # indented\n\n~~~\n## other\n~~~\n"

    assert headings(text) == [(1, "A")]
    assert passages(text) == ["```sh\n# comment\n```", "    # indented", "~~~\n## other\n~~~"]


def test_lists_and_tables_and_quotes_stay_as_they_are_written() -> None:
    listed = "- one\n- two\n  - three"
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    quote = "> # quoted\n> words"

    assert passages(f"{listed}\n\n{table}\n\n{quote}\n") == [listed, table, quote]


def test_front_matter_is_skipped_and_gives_the_title() -> None:
    document = read_markdown('---\ntitle: "The Guide"\ntags: [a]\n---\n# H\ntext\n')

    assert document.title == "The Guide"
    assert document.blocks == [Heading(1, "H"), Passage("text")]


def test_a_ruler_at_the_top_is_not_front_matter() -> None:
    assert passages("---\n\nwords\n\n---\n\nmore\n") == ["---", "words", "---", "more"]


def test_headings_in_html_are_found() -> None:
    text = '<h1 align="center">Baton</h1>\n\ntext\n\n## Next\n'

    assert headings(text) == [(1, "Baton"), (2, "Next")]


def test_link_definitions_are_not_lost() -> None:
    assert passages("see [a]\n\n[a]: http://x\n") == ["see [a]", "[a]: http://x"]


def test_a_paragraph_that_a_ruler_made_a_heading_stays_a_paragraph() -> None:
    text = "word " * 100

    assert headings(f"{text}\n---\n") == []
    assert passages(f"{text}\n---\n") == [text.strip()]
