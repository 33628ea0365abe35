"""What holds of creating: nothing that was acknowledged is lost, and a key makes one job."""

from __future__ import annotations

from collections.abc import Iterator

from verification.evidence.evidence import Evidence
from verification.invariants.invariant import Invariant


def _kept(evidence: Evidence) -> Iterator[str | None]:
    for call in evidence.history.calls:
        if call.method == "CreateJob" and call.acknowledged and call.response is not None:
            job_id = call.response["job"]["jobId"]
            rows = evidence.tables.get(job_id)
            if rows is None or not rows.jobs:
                yield f"job {job_id} was acknowledged, and the database does not have it"
            elif rows.state not in ("SUCCEEDED", "FAILED", "CANCELLED"):
                yield f"job {job_id} was acknowledged, and is still {rows.state}"
            else:
                yield None


INVARIANTS = (
    Invariant(1, "nothing lost", "a job whose creation was acknowledged is there, and ends", _kept),
)
