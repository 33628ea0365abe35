"""An invariant as a value, and what a judge found of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from verification.evidence.evidence import Evidence

Judge = Callable[[Evidence], Iterator[str | None]]
"""Yields once for each fact that it judges: None if it holds, else a sentence on what is wrong."""

_VIOLATIONS_KEPT = 20
"""Of one invariant; more say nothing new, and a report is for people."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """One thing that must always hold.

    Attributes:
        number: As the guarantees are numbered in docs/guarantees.md.
        name: Short, for reports.
        sentence: What holds.
    """

    number: int
    name: str
    sentence: str
    judge: Judge


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found.

    Attributes:
        facts: How many were judged; with none, nothing was proved either way.
        broken: How many of them do not hold.
        violations: Sentences on the first ones of these.
    """

    invariant: Invariant
    facts: int
    broken: int
    violations: Sequence[str]

    @property
    def holds(self) -> bool:
        return self.broken == 0


def judge(invariants: Sequence[Invariant], evidence: Evidence) -> Sequence[Judgement]:
    """Judge each invariant by itself, in their order."""
    return [_judged(each, evidence) for each in invariants]


def _judged(invariant: Invariant, evidence: Evidence) -> Judgement:
    found = list(invariant.judge(evidence))
    broken = [each for each in found if each is not None]
    return Judgement(invariant, len(found), len(broken), broken[:_VIOLATIONS_KEPT])
