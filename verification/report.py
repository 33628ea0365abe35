"""The report for people: a line for each outcome as it comes, and what was judged at the end."""

from __future__ import annotations

from collections.abc import Sequence

from verification.outcomes import Outcome, totals

_INDENT = " " * 8


def line(outcome: Outcome) -> str:
    """One outcome; what is wrong follows in lines of its own."""
    first = f"{_word(outcome):<7} {outcome.group}: {outcome.name}  ({outcome.seconds:.1f} s)"
    return "\n".join([first, *(f"{_INDENT}{each}" for each in _faults(outcome))])


def summary(outcomes: Sequence[Outcome]) -> str:
    """What holds and what does not, over everything that was run."""
    lines = [
        f"{_verdict(total.facts, total.broken):<14} {total.number:>2}. {total.name}: {total.sentence}"
        f" ({total.facts} facts)"
        for total in totals(outcomes)
    ]
    failed = [each for each in outcomes if not each.passed]
    unjudged = sum(bool(each.unjudged) for each in outcomes)
    passed = f"{len(outcomes) - len(failed) - unjudged} of {len(outcomes)} passed"
    lines.append(f"{passed}, {unjudged} not judged" if unjudged else passed)
    lines += [f"FAILED  {each.group}: {each.name}" for each in failed]
    return "\n".join(lines)


def _verdict(facts: int, broken: int) -> str:
    if broken:
        return f"BROKEN {broken}x"
    return "holds" if facts else "not judged"


def _word(outcome: Outcome) -> str:
    if not outcome.passed:
        return "FAILED"
    return "not judged" if outcome.unjudged else "ok"


def _faults(outcome: Outcome) -> list[str]:
    found = [*outcome.failure.splitlines()[:20], *([outcome.unjudged] if outcome.unjudged else [])]
    for judgement in outcome.broken:
        found.append(f"invariant {judgement.invariant.number}, {judgement.invariant.name}, is broken:")
        found += [f"  {each}" for each in judgement.violations]
    return found
