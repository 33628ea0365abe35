"""Rules about the rows of one job, as judges of all jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from verification.evidence.evidence import Evidence
from verification.evidence.tables import JobRows
from verification.invariants.invariant import Judge

RowRule = Callable[[JobRows], Iterator[str]]
"""Yields a sentence for each fault in a job's rows, read at one moment."""

FINAL_KINDS = {"SUCCEEDED": "succeeded", "FAILED": "failed", "CANCELLED": "cancelled"}
"""The last event of a job by its state; a message of the outbox is named after it."""


def of_each_job(rule: RowRule) -> Judge:
    """A judge for whom each job is a fact."""

    def judge(evidence: Evidence) -> Iterator[str | None]:
        for job_id, rows in evidence.tables.items():
            faults = list(rule(rows)) if rows.jobs else ["it has no row of its own"]
            yield f"job {job_id}: {'; '.join(faults)}" if faults else None

    return judge


def has_ended(rows: JobRows) -> bool:
    return rows.state in FINAL_KINDS
