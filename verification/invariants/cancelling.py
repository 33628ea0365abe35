"""What holds of cancelling: what was acknowledged wins over every result."""

from __future__ import annotations

from collections.abc import Iterator

from verification.evidence import answers
from verification.evidence.evidence import Evidence
from verification.evidence.tables import JobRows
from verification.invariants.invariant import Invariant
from verification.invariants.rows import has_ended, of_each_job


def _never_succeeds(evidence: Evidence) -> Iterator[str | None]:
    successes = {
        each.job_id for each in answers.sightings(evidence.history) if each.state == answers.SUCCEEDED
    }
    successes |= {
        job_id for job_id, state in answers.told_ends(evidence.history) if state == answers.SUCCEEDED
    }
    for call in evidence.history.calls:
        if call.method != "CancelJob" or not call.acknowledged:
            continue
        job_id = call.request["jobId"]
        rows = evidence.tables.get(job_id)
        if rows is not None and rows.jobs and rows.state == "SUCCEEDED":
            yield f"CancelJob was acknowledged for job {job_id}, and it is SUCCEEDED"
        elif job_id in successes:
            yield f"CancelJob was acknowledged for job {job_id}, and somebody was told that it succeeded"
        else:
            yield None


def cancel_wins(rows: JobRows) -> Iterator[str]:
    """Once a cancel was accepted, every end is CANCELLED, and nothing starts another attempt."""
    asked = rows.job["cancel_request_time"] is not None
    if asked and rows.state in ("SUCCEEDED", "FAILED", "QUEUED"):
        yield f"a cancel was accepted, and it is {rows.state}"
    if asked and not has_ended(rows) and not rows.leases:
        yield "a cancel was accepted, and it waits for another attempt"
    requested = [place for place, each in enumerate(rows.events) if each["kind"] == "cancel_requested"]
    ends = {each["outcome"] for place in requested for each in rows.events[place:]} - {None, "cancelled"}
    if ends:
        yield f"a cancel was requested, and an attempt then ended as {ends}"
    if rows.state == "CANCELLED" and not asked and rows.job["start_by_time"] is None:
        yield "it is cancelled, and nobody asked for that"


INVARIANTS = (
    Invariant(5, "cancelled for good", "after CancelJob returned OK the job never succeeds", _never_succeeds),
    Invariant(
        5,
        "cancel wins",
        "with a cancel requested every end is CANCELLED, and without one none is",
        of_each_job(cancel_wins),
    ),
)
