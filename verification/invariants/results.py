"""What holds of results: all of one is there, once, or nothing of it."""

from __future__ import annotations

from collections.abc import Iterator

from verification.evidence.tables import JobRows
from verification.invariants.invariant import Invariant
from verification.invariants.rows import FINAL_KINDS, has_ended, of_each_job


def committed_once(rows: JobRows) -> Iterator[str]:
    """State, successful attempt, event and artifacts are all there or none is."""
    succeeded = int(rows.state == "SUCCEEDED")
    successes = [each["attempt"] for each in rows.attempts if each["outcome"] == "succeeded"]
    told = [each["attempt"] for each in rows.events if each["kind"] == "succeeded"]
    if (len(successes), len(told)) != (succeeded, succeeded):
        yield f"it is {rows.state}; {len(successes)} attempts succeeded, {len(told)} events tell of success"
    elif successes != told or (succeeded and successes != [rows.job["attempt"]]):
        yield f"attempt {successes} succeeded, the event tells of {told}, the last is {rows.job['attempt']}"
    if len(rows.artifacts) != rows.job["artifact_count"] or bool(rows.artifacts) > succeeded:
        yield f"it is {rows.state}, counts {rows.job['artifact_count']} artifacts, has {len(rows.artifacts)}"


def told_others_once(rows: JobRows) -> Iterator[str]:
    """A job's end is told to other services once, and nothing before it."""
    told = [each["event_type"] for each in rows.outgoing]
    if told != ([f"job.{FINAL_KINDS[rows.state]}"] if has_ended(rows) else []):
        yield f"in state {rows.state} other services were told {told}"


def _projected_once(rows: JobRows) -> Iterator[str]:
    """What the projector of `synthetic` wrote is of the attempt that succeeded."""
    if rows.job["job_type"] != "synthetic":
        return
    projected = [each["attempt"] for each in rows.results]
    succeeded = [each["attempt"] for each in rows.attempts if each["outcome"] == "succeeded"]
    if projected != succeeded:
        yield f"attempts {succeeded} succeeded, and the projector wrote for {projected}"


def _hashed(rows: JobRows) -> Iterator[str]:
    """The output that is kept is the one whose hash the job tells."""
    for each in rows.attempts:
        kept = each.get("output_sha256")
        if kept is not None and (each["outcome"], kept) != ("succeeded", rows.job["output_hash"]):
            yield f"attempt {each['attempt']}, {each['outcome']}, left an output that is not the job's"


INVARIANTS = (
    Invariant(
        2,
        "one result",
        "state, attempt, event and artifacts of a success are there together, once, or none of them",
        of_each_job(committed_once),
    ),
    Invariant(
        2,
        "one projection",
        "what a projector wrote is of the one attempt that succeeded",
        of_each_job(_projected_once),
    ),
    Invariant(2, "one message", "other services are told of each end once", of_each_job(told_others_once)),
    Invariant(2, "one output", "the output that is kept has the hash that is told", of_each_job(_hashed)),
)
