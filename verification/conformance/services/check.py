"""A check as a value, and checks that belong together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from verification.conformance.services.target import Target

Check = Callable[[Target], Awaitable[None]]
"""Raises Unmet if what must be so is not, NotJudged if it can't tell. Its docstring begins with what must."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Checks that belong together.

    Attributes:
        executing: Whether they need ExecutionService.
    """

    name: str
    checks: Sequence[Check]
    executing: bool = False
