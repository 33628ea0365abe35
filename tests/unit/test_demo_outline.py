from __future__ import annotations

from job_api.command.demo_documents import outline


def test_each_heading_is_named_once_where_it_first_stands() -> None:
    paths = [[], ["Boats"], ["Boats", "Sails"], ["Boats", "Sails"], ["Boats", "Oars"], ["Tides"]]

    assert list(outline(paths)) == [(0, "Boats"), (1, "Sails"), (1, "Oars"), (0, "Tides")]


def test_equal_headings_in_two_places_are_two_headings() -> None:
    paths = [["A", "Summary"], ["B", "Summary"], ["A", "Summary"]]

    assert list(outline(paths)) == [
        (0, "A"),
        (1, "Summary"),
        (0, "B"),
        (1, "Summary"),
        (0, "A"),
        (1, "Summary"),
    ]


def test_a_heading_without_items_of_its_own_still_stands_above_those_below_it() -> None:
    assert list(outline([["A", "B", "C"]])) == [(0, "A"), (1, "B"), (2, "C")]
