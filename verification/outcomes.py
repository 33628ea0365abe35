"""What came of everything that was tried, as values and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verification.invariants.invariant import Judgement


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one check, or one part of a case.

    Attributes:
        group: `services`, `executors`, or a case as `case 1 zombie`.
        name: Of the check or part.
        title: What it shows, in a sentence.
        failure: What was not so; empty if all was.
        unjudged: Why nothing could be said here; empty if something was.
        judgements: Of every invariant, from the evidence of this part; empty for checks.
        notes: What was measured.
    """

    group: str
    name: str
    title: str
    seconds: float
    failure: str = ""
    unjudged: str = ""
    judgements: Sequence[Judgement] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def broken(self) -> Sequence[Judgement]:
        """The invariants that do not hold."""
        return [each for each in self.judgements if not each.holds]

    @property
    def passed(self) -> bool:
        return not self.failure and not self.broken


def name_of(tried: Callable[..., object]) -> str:
    """How reports name what was tried."""
    return tried.__name__.replace("_", " ")


def title_of(tried: Callable[..., object]) -> str:
    """What it shows, in a sentence: the first of its docstring."""
    return (tried.__doc__ or tried.__name__).strip().splitlines()[0]


def as_json(outcomes: Sequence[Outcome], *, seed: int, scale: float) -> Mapping[str, Any]:
    """The whole report, for scripts."""
    return {
        "passed": all(each.passed for each in outcomes),
        "seed": seed,
        "scale": scale,
        "outcomes": [_outcome(each) for each in outcomes],
        "invariants": [_summary(each) for each in totals(outcomes)],
    }


@dataclass(frozen=True, slots=True)
class Total:
    """Of one invariant over all parts."""

    number: int
    name: str
    sentence: str
    facts: int
    broken: int


def totals(outcomes: Sequence[Outcome]) -> Sequence[Total]:
    """Sum up what was judged of each invariant, in their order."""
    summed: dict[str, Total] = {}
    for judgement in (each for outcome in outcomes for each in outcome.judgements):
        it = judgement.invariant
        before = summed.get(it.name, Total(it.number, it.name, it.sentence, 0, 0))
        facts, broken = before.facts + judgement.facts, before.broken + judgement.broken
        summed[it.name] = Total(it.number, it.name, it.sentence, facts, broken)
    return sorted(summed.values(), key=lambda total: total.number)


def _outcome(outcome: Outcome) -> Mapping[str, Any]:
    return {
        "group": outcome.group,
        "name": outcome.name,
        "title": outcome.title,
        "passed": outcome.passed and not outcome.unjudged,
        "seconds": round(outcome.seconds, 2),
        "failure": outcome.failure,
        "unjudged": outcome.unjudged,
        "broken_invariants": [
            {
                "number": each.invariant.number,
                "name": each.invariant.name,
                "violations": list(each.violations),
            }
            for each in outcome.broken
        ],
        "notes": dict(outcome.notes),
    }


def _summary(total: Total) -> Mapping[str, Any]:
    return {
        "number": total.number,
        "name": total.name,
        "sentence": total.sentence,
        "facts": total.facts,
        "broken": total.broken,
    }
