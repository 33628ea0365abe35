"""What must be true of a job's rows at every moment: the rules of the suite, and what these cores add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shared.domain.identity import JobId
from verification.evidence.tables import JobRows
from verification.invariants.catalog import AT_EVERY_MOMENT


def faults_of(everything: Mapping[JobId, JobRows]) -> list[str]:
    """Say what is wrong with all jobs; empty if nothing is."""
    rules = (*AT_EVERY_MOMENT, _projected)
    return [
        f"{job_id}: {fault}" for job_id, rows in everything.items() for rule in rules for fault in rule(rows)
    ]


def _projected(rows: JobRows) -> Iterator[str]:
    """Each success here leaves one artifact."""
    if len(rows.artifacts) != (rows.state == "SUCCEEDED"):
        yield f"{rows.state} with {len(rows.artifacts)} projections"
