"""How much a run tries, and where its chance comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self


def _silently(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What whoever starts the suite says about all parts.

    Attributes:
        scale: 1 for the sizes that the cases tell, less for a shorter run.
        seconds: How long fire lasts where a case does not end by itself; None for as the scale says.
        tell: Takes a line about how it goes, while it goes.
    """

    seed: int = 1
    scale: float = 1.0
    seconds: float | None = None
    tell: Callable[[str], None] = _silently

    def turn(self, number: int) -> Self:
        """The terms of a later round, from 0 on: each has a seed of its own."""
        return replace(self, seed=self.seed + number)
