"""A check as a value: what an executor must do, and what it must be able to do for that to be seen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from verification.conformance.executors.bench import Bench
from verification.outcomes import name_of

Attempt = Callable[[Bench], Awaitable[None]]
"""Raises Unmet if the executor does not do as it must. Its docstring's first line says what it must do."""


class Feature(StrEnum):
    """What an executor may lack, or its `synthetic`."""

    PROGRESS = "progress"
    """It is told while a handler works."""
    PIECES = "pieces"
    """Output is streamed: `pieces`, `piece_characters`."""
    FAILURES = "failures"
    """Attempts fail as ordered: `fail_attempts`, `fail_code`."""
    SIZES = "sizes"
    """Outputs are padded: `output_bytes`."""
    DEAFNESS = "deafness"
    """Handlers that don't stop are killed: `ignore_cancel`."""
    BLOCKING = "blocking"
    """Handlers may hold the interpreter: `work` is `blocking`."""
    EXITS = "exits"
    """A handler's process may die: `exit_attempts`."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        attempt: What is tried.
        needs: Without these nothing can be seen.
    """

    attempt: Attempt
    needs: Sequence[Feature] = ()

    @property
    def name(self) -> str:
        return name_of(self.attempt)
