"""HTML: headings, text of all kinds, and nothing that is not text."""

from __future__ import annotations

import pytest

from job_worker.handlers.documents.blocks import Heading, Passage, UnreadableDocument
from job_worker.handlers.documents.html import HTML_CHARACTERS_MAX, declared_charset, read_html


def headings(text: str) -> list[tuple[int, str]]:
    return [(block.level, block.text) for block in read_html(text).blocks if isinstance(block, Heading)]


def passages(text: str) -> list[str]:
    return [block.text for block in read_html(text).blocks if isinstance(block, Passage)]


def test_headings_are_found_in_order_with_their_words_only() -> None:
    text = (
        "<h1>The <em>first</em>&nbsp;one<a class=headerlink href=#>¶</a></h1><h3>Third &amp;\n more</h3>"
        "<div><h2><span>Nested</span><br>deep</h2></div><h4></h4><h2><img alt='Logo'></h2>"
    )

    assert headings(text) == [(1, "The first one"), (3, "Third & more"), (2, "Nested deep"), (2, "Logo")]


def test_scripts_and_styles_and_templates_are_dropped() -> None:
    text = (
        "<head><title>T &lt;1&gt;</title><style>h1 {}</style><script>'<h1>no</h1>'</script></head>"
        "<body><template><h2>no</h2></template><svg><title>no</title></svg><!-- <h1>no</h1> -->yes</body>"
    )
    document = read_html(text)

    assert document.title == "T <1>"
    assert document.blocks == [Passage("yes")]


def test_paragraphs_breaks_and_code_keep_their_shape() -> None:
    text = "loose<p>a\n  b<br>c</p><pre>if x:\n    # y</pre><div>d<div>e</div>f</div>"

    assert passages(text) == ["loose", "a b\nc", "if x:\n    # y", "d", "e", "f"]


def test_lists_are_indented_and_numbered() -> None:
    text = "<ul><li>a<li><p>b</p><ol><li>c</li><li>d</li></ol></li></ul>"

    assert passages(text) == ["- a\n- b\n  1. c\n  2. d"]


def test_tables_become_rows_of_text() -> None:
    text = "<table><thead><tr><th>Name<th>Value</tr><tbody><tr><td><p>x</p></td><td>1</td></tr></table>"

    assert passages(text) == ["Name | Value\nx | 1"]


def test_a_page_that_ends_in_the_middle_keeps_what_was_whole() -> None:
    assert passages("<p>one<p>two <b") == ["one", "two"]
    assert passages("<p>one<!-- <p>two") == ["one"]


def test_a_heading_without_end_ends_with_the_next_one() -> None:
    assert headings("<h1>a<h2>b</h2>") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("head", "charset"),
    [
        (b"<meta charset=latin-1>", "latin-1"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r"),
        (b"<p>charset=x", None),
    ],
)
def test_the_page_names_its_character_set(head: bytes, charset: str | None) -> None:
    assert declared_charset(b"<html>" + head) == charset


@pytest.mark.parametrize(
    "piece", ["<div>", "<b id=1>", "<!--", "<a ", "<!", "&", "<table><tr><td>", "<ul><li>x"]
)
def test_no_nesting_and_no_fault_takes_more_than_a_moment(piece: str) -> None:
    read_html(piece * 20_000)


def test_a_page_beyond_the_limit_is_refused() -> None:
    with pytest.raises(UnreadableDocument) as refused:
        read_html("x" * (HTML_CHARACTERS_MAX + 1))

    assert refused.value.code == "INPUT_TOO_LARGE"
