"""Pages as messages: whatever their rows hold, every client can read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from google.protobuf.message import Message

from job_api.operations.paging import Page

BYTES_MAX = 3 * 1024 * 1024
"""Clients of gRPC read messages of 4 MiB, unless they are told otherwise."""

_FRAME_BYTES = 8
"""Of a field's number and length, at most."""

Item = TypeVar("Item")
Rendered = TypeVar("Rendered", bound=Message)


def fitting(messages: Iterable[Rendered]) -> list[Rendered]:
    """Return the first messages that fit into an answer together; the very first one in any case."""
    found, room = list[Rendered](), BYTES_MAX
    for each in messages:
        room -= each.ByteSize() + _FRAME_BYTES
        if found and room < 0:
            break
        found.append(each)
    return found


def fitted(page: Page[Item], render: Callable[[Item], Rendered]) -> tuple[list[Rendered], str]:
    """Render a page, and return its messages with the token that leads on from the last of them."""
    shown = fitting(map(render, page.items))
    if len(shown) == len(page.items):
        return shown, page.next_token
    return shown, page.token_behind(page.items[len(shown) - 1])
