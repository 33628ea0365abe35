"""Blocks become items: under their headings, in order, none too long, every heading visible."""

from __future__ import annotations

import pytest

from job_worker.handlers.documents.blocks import Block, Heading, Passage
from job_worker.handlers.documents.sections import Item, items, pieces

MAX = 100


def cut(*blocks: Block) -> list[Item]:
    return list(items(blocks, characters_max=MAX))


def test_an_empty_document_has_no_items() -> None:
    assert cut() == []


def test_text_stands_under_all_headings_above_it() -> None:
    found = cut(Heading(1, "A"), Heading(2, "B"), Passage("b"), Heading(2, "C"), Passage("c"), Passage("d"))

    assert found == [Item(("A", "B"), "b", None), Item(("A", "C"), "c\n\nd", None)]


def test_text_before_the_first_heading_has_no_headings() -> None:
    assert cut(Passage("a"), Heading(1, "H"), Passage("b")) == [
        Item((), "a", None),
        Item(("H",), "b", None),
    ]


def test_a_heading_with_nothing_below_it_becomes_an_item_of_itself() -> None:
    found = cut(Heading(1, "A"), Heading(2, "B"), Heading(2, "C"), Heading(1, "D", 3))

    assert found == [
        Item(("A", "B"), "B", None),
        Item(("A", "C"), "C", None),
        Item(("D",), "D", 3),
    ]


def test_a_skipped_level_leaves_no_hole_in_the_path() -> None:
    assert cut(Heading(1, "A"), Heading(4, "B"), Heading(3, "C"), Passage("c")) == [
        Item(("A", "B"), "B", None),
        Item(("A", "C"), "c", None),
    ]


def test_a_long_section_is_split_between_paragraphs() -> None:
    found = cut(Heading(1, "A"), Passage("x" * 60, 1), Passage("y" * 30, 1), Passage("z" * 60, 2))

    assert found == [
        Item(("A",), "x" * 60 + "\n\n" + "y" * 30, 1),
        Item(("A",), "z" * 60, 2),
    ]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a" * 60 + "\n" + "b" * 60, "a" * 60),
        ("a" * 60 + ". " + "b " * 60, "a" * 60 + "."),
        ("a" * 30 + " " + "b" * 80, "a" * 30),
        ("a" * 150, "a" * 100),
    ],
    ids=["line", "sentence", "word", "nowhere"],
)
def test_a_long_paragraph_is_cut_where_it_hurts_least(text: str, first: str) -> None:
    assert next(pieces(text, MAX)) == first
