"""Reads the inputs of a batch: a JSON document for each item, as lines or as one JSON array.

Each document is sent as it was written; what it must hold is for the service to judge.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from job_api.command.exits import invalid

_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Inputs:
    """The items' inputs, and where each was found: `line 17`, or `item 17` of an array."""

    documents: Sequence[bytes]
    places: Sequence[str]

    def in_their_places(self, sentence: str) -> str:
        """Say `line 17, name` for what the service calls `inputs[16].name`."""
        return re.sub(r"\binputs\[(\d{1,9})\](\.?)", self._place, sentence)

    def _place(self, found: re.Match[str]) -> str:
        index = int(found[1])
        if index >= len(self.places):
            return found[0]
        return f"{self.places[index]}, " if found[2] else self.places[index]


def read(source: str) -> Inputs:
    """Read a file, or stdin for `-`; end the command if it holds no inputs, or anything that is not JSON."""
    try:
        raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise invalid(f"the inputs {source!r} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise invalid(f"the inputs {source!r} are not UTF-8 text") from None
    found = list(_array(text) if text.lstrip(_BLANKS).startswith("[") else _lines(text))
    if not found:
        raise invalid(f"{source!r} holds no inputs: one JSON object a line is expected, or one JSON array")
    return Inputs([document.encode() for _, document in found], [place for place, _ in found])


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip(_BLANKS):
            _require_json(line, f"line {number} of the inputs is not a JSON document")
            yield f"line {number}", line.strip(_BLANKS)


def _array(text: str) -> Iterator[tuple[str, str]]:
    """Cut the members out of an array, without changing a character of them."""
    _require_json(text, "the inputs are not a JSON array")
    decoder = json.JSONDecoder()
    at = _behind_blanks(text, text.index("[") + 1)
    number = 0
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        number += 1
        yield f"item {number}", text[at:end]
        at = _behind_blanks(text, end)
        if text[at] == ",":
            at = _behind_blanks(text, at + 1)


def _require_json(text: str, otherwise: str) -> None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"column {error.colno}"
        raise invalid(f"{otherwise}: {error.msg} ({place})") from None
    except (ValueError, RecursionError) as error:  # digits without end, or nested without end
        raise invalid(f"{otherwise}: {error}") from None


def _behind_blanks(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at
