"""Where a document does not fit its model, in words."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from shared.catalog.misfits import Misfit, misfits, sentence


class Part(BaseModel):
    name: str


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    parts: list[Part] = []
    grid: list[list[int]] = []
    even: int = 0

    @field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    @model_validator(mode="after")
    def _is_small(self) -> Whole:
        if len(self.parts) > 2:
            raise ValueError("has too many parts")
        return self


def error_of(text: str) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate_json(text)
    return caught.value


def test_places_are_written_as_callers_write_them() -> None:
    found = misfits(
        error_of('{"parts": [{"name": "a"}, {"name": 5}], "grid": [[1], [1, "x"]], "odd": "hunter2"}')
    )

    assert [each.place for each in found] == ["parts[1].name", "grid[1][1]", "odd"]
    assert found[0].within("input") == "input.parts[1].name"
    assert not any("hunter2" in each.what for each in found)


def test_a_models_own_words_stand_alone() -> None:
    assert misfits(error_of('{"even": 3}')) == [Misfit("even", "must be even")]
    many = error_of('{"parts": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}')
    assert sentence("input", many) == "the input does not fit: the whole: has too many parts"
    assert misfits(many)[0].within("input") == "input"


def test_a_document_that_is_a_list_of_faults_is_told_in_one_line_that_says_how_many_more_there_are() -> None:
    told = sentence("output", error_of(json.dumps({"grid": [["x"] * 23]})))

    assert told.startswith("the output does not fit: grid[0][0]: Input should be a valid integer")
    assert told.count("grid[0]") == 20
    assert told.endswith("; and 3 more")
