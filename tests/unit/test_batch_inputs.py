"""How a file becomes the inputs of a batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from job_api.command import batch_inputs


def read(tmp_path: Path, text: str | bytes) -> list[bytes]:
    path = tmp_path / "items"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(batch_inputs.read(str(path)).documents)


def test_each_line_that_is_not_blank_is_an_input_as_it_stands(tmp_path: Path) -> None:
    text = '\ufeff{"n": 1.0}\r\n\n  {"n":2, "n": 3} \n{"é": "\\u00e9"}'

    assert read(tmp_path, text) == [b'{"n": 1.0}', b'{"n":2, "n": 3}', '{"é": "\\u00e9"}'.encode()]


def test_the_members_of_an_array_are_inputs_as_they_stand(tmp_path: Path) -> None:
    text = ' [ {"n": 1.0, "l": [1, {"a": "]"}]}\n,{"n":2 , "n": 3}, 4, "b" ]\n'

    assert read(tmp_path, text) == [
        b'{"n": 1.0, "l": [1, {"a": "]"}]}',
        b'{"n":2 , "n": 3}',
        b"4",
        b'"b"',
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"n": 1}\n\n\n{"n": 2}', "line 4, n: too few; line 1: no object; inputs[2]: not there"),
        ('[{"n": 1},\n\n{"n": 2}]', "item 2, n: too few; item 1: no object; inputs[2]: not there"),
    ],
    ids=["lines", "array"],
)
def test_what_the_service_says_of_an_input_is_said_of_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "items"
    path.write_text(text)
    inputs = batch_inputs.read(str(path))

    assert inputs.in_their_places("inputs[1].n: too few; inputs[0]: no object; inputs[2]: not there") == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no inputs: one JSON object a line is expected, or one JSON array"),
        ("[ ]", "holds no inputs"),
        ('{"n": 1}\n{"n": }', "line 2 of the inputs is not a JSON document: Expecting value (column 7)"),
        ('{\n"n": 1\n}', "line 1 of the inputs is not a JSON document"),
        ('[{"n": 1}', "the inputs are not a JSON array"),
        ("[" * 100_000, "the inputs are not a JSON array: maximum recursion depth exceeded"),
        ("9" * 5_000, "line 1 of the inputs is not a JSON document: Exceeds the limit"),
        (b"\xff\xff", "are not UTF-8 text"),
    ],
)
def test_what_is_no_inputs_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | bytes, said: str
) -> None:
    with pytest.raises(typer.Exit) as ended:
        read(tmp_path, text)

    assert ended.value.exit_code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_file_that_is_not_there_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        batch_inputs.read("no/such/file")

    assert "the inputs 'no/such/file' can't be read: No such file" in capsys.readouterr().err
