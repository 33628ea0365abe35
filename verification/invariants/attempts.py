"""What holds of attempts: each lease is one, and what it costs depends on how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from verification.evidence.tables import JobRows
from verification.invariants.invariant import Invariant
from verification.invariants.rows import has_ended, of_each_job

TRIES_MAX = 3
"""Of the queue `drill`: failures and time-outs together."""
LOSSES_MAX = 3

_OUTCOMES = frozenset({"succeeded", "failed", "timed_out", "lost", "cancelled", "given_back"})
_FREE_OR_NOBODYS_FAULT = frozenset({"lost", "given_back"})


def numbered(rows: JobRows) -> Iterator[str]:
    """Leases are numbered without gaps, their tokens' epochs likewise, and events tell of their ends."""
    numbers = sorted(each["attempt"] for each in rows.attempts + rows.leases)
    if numbers != list(range(1, rows.job["attempt"] + 1)):
        yield f"attempts {numbers} are there, and it counts {rows.job['attempt']}"
    for each in rows.attempts + rows.leases:
        if not each["token"].startswith(f"{each['attempt']}."):
            yield f"attempt {each['attempt']} has the token {each['token']}"
    told = [(each["attempt"], each["outcome"]) for each in rows.events if each["kind"] == "attempt_ended"]
    told += [(each["attempt"], "succeeded") for each in rows.events if each["kind"] == "succeeded"]
    found = [(each["attempt"], each["outcome"]) for each in rows.attempts]
    if told != found or {outcome for _, outcome in found} - _OUTCOMES:
        yield f"its attempts ended as {found}, and its events tell of the ends {told}"


def counted(rows: JobRows) -> Iterator[str]:
    """Failures and losses are counted apart, and neither goes beyond its limit."""
    outcomes = Counter(each["outcome"] for each in rows.attempts)
    failures, losses = outcomes["failed"] + outcomes["timed_out"], outcomes["lost"]
    if (failures, losses) != (rows.job["failures"], rows.job["losses"]):
        yield f"it counts {rows.job['failures']} failures and {rows.job['losses']} losses, not {outcomes}"
    if failures > TRIES_MAX or losses > LOSSES_MAX:
        yield f"{failures} failures and {losses} losses are more than it may have"
    lost = rows.state == "FAILED" and rows.job["error_code"] == "EXECUTOR_LOST"
    if lost and losses != LOSSES_MAX:
        yield f"it failed as lost with {losses} losses"
    if losses == LOSSES_MAX and not has_ended(rows):
        yield "it goes on after its last loss"


def no_fault_of_its_own(rows: JobRows) -> Iterator[str]:
    """A job whose attempts were all given back or lost, fewer than three of them, has not failed."""
    outcomes = Counter(each["outcome"] for each in rows.attempts)
    blameless = outcomes.keys() <= _FREE_OR_NOBODYS_FAULT and outcomes["lost"] < LOSSES_MAX
    if blameless and rows.state == "FAILED":
        yield f"it has FAILED, and its attempts ended as {dict(outcomes)}"


INVARIANTS = (
    Invariant(
        10, "attempts numbered", "each lease is an attempt, numbered without gaps", of_each_job(numbered)
    ),
    Invariant(
        10,
        "failures and losses",
        "failures are at most three, losses are counted apart, the third ends the job",
        of_each_job(counted),
    ),
    Invariant(
        10,
        "no fault, no failure",
        "leases given back and few losses never fail a job",
        of_each_job(no_fault_of_its_own),
    ),
)
