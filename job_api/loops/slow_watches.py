"""Finds the watches that make no room: others wait for what is kept for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar


class Watch(Protocol):
    """What waits for one watcher.

    Attributes:
        full_since: When it was first found without room; None while it has some.
    """

    full_since: float | None

    @property
    def has_room(self) -> bool: ...
    @property
    def ended(self) -> bool: ...


AnyWatch = TypeVar("AnyWatch", bound=Watch)


def found_slow(watches: Iterable[AnyWatch], *, now: float, slow_seconds: float) -> Iterator[AnyWatch]:
    """Note which watches have room, and yield those that have had none for too long.

    Args:
        now: Seconds of the clock that all looks at these watches go by.
    """
    for each in watches:
        if each.has_room or each.ended:
            each.full_since = None
        elif each.full_since is None:
            each.full_since = now
        elif now - each.full_since > slow_seconds:
            yield each
