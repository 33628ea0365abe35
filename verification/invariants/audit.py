"""What holds of audit records: one for each effect of a caller on a job, and none for anything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from verification.evidence.tables import JobRows, Row
from verification.invariants.invariant import Invariant
from verification.invariants.rows import of_each_job


def one_record_for_each_effect(rows: JobRows) -> Iterator[str]:
    """The job's making and its cancel are told once each, where a caller asked for them one by one."""
    counted = Counter(str(each["action"]) for each in rows.audits)
    yield from _miscounted(
        counted, "job.create", {_is_made_alone(rows.job) and not rows.job["origin_job_id"]}
    )
    yield from _miscounted(
        counted, "job.retry", {_is_made_alone(rows.job) and bool(rows.job["origin_job_id"])}
    )
    yield from _miscounted(counted, "job.cancel", _cancels(rows))
    strange = counted.keys() - {"job.create", "job.retry", "job.cancel"}
    if strange:
        yield f"it has records of {sorted(strange)}"
    for each in rows.audits:
        made = each["action"] != "job.cancel"
        if each["owner"] != rows.job["owner"] or (made and each["subject"] != rows.job["created_by"]):
            yield f"the record of {each['action']} names {each['subject']} for {each['owner']}"


def _miscounted(counted: Counter[str], action: str, allowed: set[bool]) -> Iterator[str]:
    if counted[action] not in {int(each) for each in allowed}:
        yield f"it has {counted[action]} records of {action}, and should have {sorted(map(int, allowed))}"


def _is_made_alone(job: Row) -> bool:
    """Whether the record is about the job, and not about its batch."""
    return job["batch_id"] is None


def _cancels(rows: JobRows) -> set[bool]:
    """Whether a caller cancelled the job; both where its batch's records tell."""
    if any(each["kind"] == "cancel_requested" for each in rows.events):
        return {True}
    waited = rows.state == "CANCELLED" and rows.job["cancel_request_time"] and not rows.job["error_code"]
    if waited and not _is_made_alone(rows.job):
        return {True, False}
    return {bool(waited)}


INVARIANTS = (
    Invariant(
        16,
        "one audit record",
        "every effect of a caller leaves one audit record, and nothing else does",
        of_each_job(one_record_for_each_effect),
    ),
)
