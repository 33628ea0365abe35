"""JSON text that is refused, and what refusing it costs."""

from __future__ import annotations

import pytest

from shared.catalog import json_text

KEYS = 94_000
"""So many short keys fit into the largest input that is taken."""


@pytest.mark.timeout(10)
def test_a_key_that_is_there_twice_is_found_at_once_among_many() -> None:
    members = ",".join(f'"{number:05}":1' for number in range(KEYS))

    with pytest.raises(json_text.MalformedDocument, match=f"has the key '{KEYS - 1:05}' twice"):
        json_text.parse(f'{{{members},"{KEYS - 1:05}":1}}'.encode())


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '{"b": 1, "a": {"a": 1, "\\u0061": 2, "c": 3}}'])
def test_a_key_that_is_there_twice_is_named(text: str) -> None:
    with pytest.raises(json_text.MalformedDocument, match="has the key 'a' twice"):
        json_text.parse(text.encode())
