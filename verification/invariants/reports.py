"""What holds of reports: the same one twice is one, with one answer; another one counts for nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from verification.evidence.evidence import Evidence
from verification.evidence.reports import Report, reports
from verification.invariants.invariant import Invariant

_TAKEN = frozenset({"ACCEPTED", "CANCELLED_INSTEAD", "RETRY_SCHEDULED"})
"""Answers to reports that ended an attempt."""


def _same_answer(evidence: Evidence) -> Iterator[str | None]:
    for (token, _), same in _by_content(evidence).items():
        answers = sorted({(each.outcome, each.reason) for each in same})
        if len(same) > 1:
            one = len(answers) == 1
            yield None if one else f"the same report under lease {_named(token)} was answered {answers}"


def _one_report_counts(evidence: Evidence) -> Iterator[str | None]:
    taken: dict[str, set[str]] = defaultdict(set)
    for (token, content), same in _by_content(evidence).items():
        if any(each.outcome in _TAKEN for each in same):
            taken[token].add(content)
    for token, contents in taken.items():
        one = len(contents) == 1
        yield None if one else f"{len(contents)} different reports under lease {_named(token)} were taken"


def _by_content(evidence: Evidence) -> dict[tuple[str, str], list[Report]]:
    found: dict[tuple[str, str], list[Report]] = defaultdict(list)
    for each in reports(evidence.history):
        if each.outcome:
            found[each.token, each.content].append(each)
    return found


def _named(token: str) -> str:
    """A lease as a report may show it: without the secret half of its token."""
    return token.partition(".")[0]


INVARIANTS = (
    Invariant(4, "same report, same answer", "a report sent twice gets one answer", _same_answer),
    Invariant(4, "one report", "of different reports under one lease one counts", _one_report_counts),
)
