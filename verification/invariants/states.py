"""What holds of states: few ways lead from one to another, none out of an end, and waiting is no guess."""

from __future__ import annotations

from collections.abc import Iterator

from verification.evidence import answers
from verification.evidence.answers import CANCELLED, ENDS, FAILED, QUEUED, RUNNING, SUCCEEDED, Sighting
from verification.evidence.evidence import Evidence
from verification.evidence.tables import JobRows
from verification.invariants.invariant import Invariant
from verification.invariants.rows import FINAL_KINDS, has_ended, of_each_job

_RUNS_ON = {"attempt_ended", "succeeded", "cancel_requested", "output_reset"}
_NEXT = {
    None: {"created"},
    "created": {"started", "cancelled"},
    "started": _RUNS_ON,
    "output_reset": _RUNS_ON | {"cancel_seen"},
    "cancel_requested": {"cancel_seen", "attempt_ended", "output_reset"},
    "cancel_seen": {"attempt_ended", "output_reset"},
    "attempt_ended": {"retry_scheduled", "failed", "cancelled"},
    "retry_scheduled": {"started", "cancelled"},
    "succeeded": set[str](),
    "failed": set[str](),
    "cancelled": set[str](),
}
_RANK = {QUEUED: 0, RUNNING: 1, SUCCEEDED: 2, FAILED: 2, CANCELLED: 2}


def told_in_order(rows: JobRows) -> Iterator[str]:
    """Events follow each other as the states allow, and end in the state that the job has."""
    before, attempt = None, 0
    for each in rows.events:
        kind = each["kind"]
        if kind not in _NEXT[before]:
            yield f"the event {kind} follows {before}"
        attempt += kind == "started"
        if each["attempt"] != attempt:
            yield f"the event {kind} tells of attempt {each['attempt']} while attempt {attempt} is the last"
        if each["state"] != _state_after(kind, attempt):
            yield f"after the event {kind} the state is told as {each['state']}"
        before = kind
    if rows.events and rows.events[-1]["state"] != rows.state:
        yield f"its events end in {rows.events[-1]['state']}, and it is {rows.state}"
    if before in ("retry_scheduled", "created") and rows.leases:
        yield f"its events end with {before}, and it is leased"


def dispatched_while_waiting(rows: JobRows) -> Iterator[str]:
    """A dispatch row for the next attempt exists exactly while the job waits for an executor."""
    if (len(rows.jobs), len(rows.snapshots)) != (1, 1) or len(rows.leases) > 1:
        yield "there is not one job with one input and at most one lease"
    waits = not has_ended(rows) and not rows.leases
    waiting_for = [each["attempt"] for each in rows.dispatches]
    if waiting_for != ([rows.job["attempt"] + 1] if waits else []):
        yield f"state {rows.state}, leased: {bool(rows.leases)}, dispatch rows for {waiting_for}"
    if (rows.job["next_attempt_time"] is not None) != waits:
        yield "the next attempt's time is told although none waits, or is not told"


def nothing_left(rows: JobRows) -> Iterator[str]:
    """A job that has ended holds no lease, and tells when it ended."""
    ended = has_ended(rows)
    if ended and rows.leases:
        yield "it has ended and is leased"
    if (rows.job["finish_time"] is not None) != ended:
        yield "its finish time does not fit its state"


def _answered_in_order(evidence: Evidence) -> Iterator[str | None]:
    """By when calls began and ended; what two calls at the same time are told may be in any order."""
    latest: dict[str, Sighting] = {}
    for sighting in answers.sightings(evidence.history):
        known = latest.get(sighting.job_id)
        if known is None or _RANK.get(sighting.state, -1) > _RANK.get(known.state, -1):
            latest[sighting.job_id] = sighting
            yield None
        elif sighting.begin > known.end and sighting.state != known.state:
            yield (
                f"job {sighting.job_id} was {known.state} by {known.method}"
                f" and then {sighting.state} by {sighting.method}"
            )
        else:
            yield None


def _ended_as_told(evidence: Evidence) -> Iterator[str | None]:
    ends = {(each.job_id, each.state) for each in answers.sightings(evidence.history) if each.state in ENDS}
    for job_id, state in sorted(ends | set(answers.told_ends(evidence.history))):
        rows = evidence.tables.get(job_id)
        if rows is not None and rows.jobs:
            is_so = f"JOB_STATE_{rows.state}" == state
            yield None if is_so else f"job {job_id} was told to have ended as {state}, and is {rows.state}"


def _state_after(kind: str, attempt: int) -> str:
    final = {kind: state for state, kind in FINAL_KINDS.items()}
    return final.get(kind) or ("RUNNING" if attempt else "QUEUED")


INVARIANTS = (
    Invariant(
        14, "legal changes", "a job's events follow each other as states allow", of_each_job(told_in_order)
    ),
    Invariant(14, "states go on", "no later answer tells an earlier state", _answered_in_order),
    Invariant(14, "ends stay", "an end that was told once is the end", _ended_as_told),
    Invariant(
        15,
        "dispatch rows",
        "one exists exactly while its job waits for an executor",
        of_each_job(dispatched_while_waiting),
    ),
    Invariant(15, "nothing left", "an ended job holds no lease", of_each_job(nothing_left)),
)
