"""Lists, as commands are asked for them and print them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any, Protocol, TypeVar

import typer

from job_api.command import show
from job_api.command.exits import invalid, say

Limit = Annotated[int, typer.Option(min=1, help="At most so many.")]


class Listed(Protocol):
    """One thing in a list."""

    def to_json(self) -> dict[str, Any]: ...


View = TypeVar("View", bound=Listed)
State = TypeVar("State", bound=StrEnum)


def page_size(limit: int) -> int:
    """One more than is printed, which tells whether there are more."""
    from job_api.client import PAGE_SIZE_MAX

    return min(limit + 1, PAGE_SIZE_MAX)


def print_first(
    found: Iterator[View],
    limit: int,
    table: Callable[[Sequence[View]], None],
    *,
    things: str,
    as_json: bool,
) -> None:
    """Print the first things that are found, and say so if there are more."""
    views = list(islice(found, limit + 1))
    if as_json:
        show.document([each.to_json() for each in views[:limit]])
    else:
        table(views[:limit])
    if len(views) > limit:
        say(f"there are more {things} than these {limit}; --limit says how many to list")


def state_among(states: type[State], text: str) -> State:
    """Read a state in whatever case, also with hyphens; ends the command if there is none of that name."""
    try:
        return states[text.upper().replace("-", "_")]
    except KeyError:
        raise invalid(f"there is no state {text!r}; the states are {', '.join(states)}") from None
