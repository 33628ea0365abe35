"""Tables, in terminals that are wide and narrow, and in pipes."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from job_api.command.tables import Row, Styles, lines

STYLES = Styles(head="bold", words={"FAILED": "red"})
COLUMNS = ("job", "type", "state", "progress", "attempt", "created", "error")
JOB = "01a22eab-c439-7671-95e4-c39c759332c3"
FAILED = (
    JOB,
    "document_import",
    "FAILED",
    "0 %",
    "1",
    "2026-11-30 22:55:38",
    "INPUT_BROKEN: ordered to fail",
)
FINE = (JOB, "synthetic", "SUCCEEDED", "100 %", "1", "2026-11-30 22:55:38", "")


def laid_out(columns: Row, rows: list[Row], width: int | None) -> list[str]:
    return [each.plain for each in lines(columns, rows, STYLES, width=width)]


def test_a_pipe_gets_a_line_for_each_row_without_blanks_at_its_end() -> None:
    assert laid_out(("job", "error"), [("1", "a " * 200), ("2", "")], None) == [
        "job  error",
        "1    " + " ".join("a" * 200),
        "2",
    ]


def test_a_wide_terminal_shows_all_columns_on_a_line_the_empty_ones_too() -> None:
    assert laid_out(("a", "b", "c"), [("1", "", "3")], 40) == ["a  b  c", "1     3"]


def test_a_narrow_terminal_shows_what_does_not_fit_beneath() -> None:
    assert laid_out(COLUMNS, [FINE, FAILED], 80) == [
        "job                                   type             state      progress",
        "    attempt  created              error",
        f"{JOB}  synthetic        SUCCEEDED  100 %",
        "    1        2026-11-30 22:55:38",
        f"{JOB}  document_import  FAILED     0 %",
        "    1        2026-11-30 22:55:38  INPUT_BROKEN: ordered to fail",
    ]


def test_a_narrow_terminal_leaves_out_empty_columns_and_empty_lines() -> None:
    rows: list[Row] = [("1", "", "", "short"), ("2", "", "", ""), ("3", "", "", "words " * 4)]
    assert laid_out(("number", "nothing in it", "nor here", "note"), rows, 28) == [
        "number",
        "    note",
        "1",
        "    short",
        "2",
        "3",
        "    words words words words",
    ]


def test_a_long_sentence_goes_on_beneath_itself() -> None:
    assert laid_out(("a", "note"), [("1", "the quick brown fox jumps over the lazy dog")], 30) == [
        "a  note",
        "1  the quick brown fox jumps",
        "   over the lazy dog",
    ]


@pytest.mark.parametrize("width", [1, 8, 20, 40, 79, 80, 200])
def test_no_word_is_broken_or_lost_in_a_terminal_of_any_width(width: int) -> None:
    shown = laid_out(COLUMNS, [FINE, FAILED], width)
    assert " ".join(shown).split() == " ".join(map(" ".join, (COLUMNS, FINE, FAILED))).split()
    assert all(cell_len(each) <= max(width, len(JOB) + 4) for each in shown)


def test_line_breaks_and_control_characters_of_a_cell_do_not_reach_the_terminal() -> None:
    assert laid_out(("error",), [("one\ntwo\x1b[2J\x07\rthree",)], None) == ["error", "one two[2J three"]


def test_wide_characters_take_two_cells() -> None:
    assert laid_out(("title", "state"), [("茶茶茶", "FAILED"), ("tea", "FAILED")], None) == [
        "title   state",
        "茶茶茶  FAILED",
        "tea     FAILED",
    ]


def test_a_state_has_its_colour_and_a_head_its_own() -> None:
    head, row = lines(("state", "error"), [("FAILED", "not FAILED")], STYLES, width=None)
    assert [(span.style, row.plain[span.start : span.end]) for span in row.spans if span.style] == [
        ("red", "FAILED")
    ]
    assert {span.style for span in head.spans if span.style} == {"bold"}
