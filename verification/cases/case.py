"""A case as a value: what is done, in parts, each on a stage of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from verification.outcomes import name_of
from verification.stage.stage import Stage

Part = Callable[[Stage], Awaitable[None]]
"""Raises Unmet if what must come true does not. Its docstring's first line says what must."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    Attributes:
        number: Of all cases; none has the same.
        name: One or two words.
        parts: Run one after the other.
        settings: `BATON_*` variables of the stack, beside the short times. Neighbours with the same ones
            share a stack.
    """

    number: int
    name: str
    parts: Sequence[Part]
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def with_parts(case: Case, names: Collection[str] | None) -> Case:
    """The case with the parts of these names only; with all if none are named."""
    return case if not names else replace(case, parts=[each for each in case.parts if name_of(each) in names])
