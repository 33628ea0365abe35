"""What holds of creating: nothing that was acknowledged is lost, whatever Redis loses."""

from __future__ import annotations

from collections.abc import Iterator

from verification.evidence import answers
from verification.evidence.evidence import Evidence
from verification.invariants.invariant import Invariant
from verification.invariants.rows import has_ended

_REDIS = "valkey"


def _kept(evidence: Evidence) -> Iterator[str | None]:
    acknowledged = {each.job_id for each in answers.creations(evidence.history) if each.job_id}
    for job_id in acknowledged:
        rows = evidence.tables.get(job_id)
        if rows is None or not rows.jobs:
            yield f"job {job_id} was acknowledged, and the database does not have it"
        elif not has_ended(rows):
            yield f"job {job_id} was acknowledged, and is still {rows.state}"
        else:
            yield None


def _batches_kept(evidence: Evidence) -> Iterator[str | None]:
    for call in evidence.history.calls:
        batch = (call.response or {}).get("batch") if call.method == "CreateBatch" else None
        if not batch:
            continue
        rows = evidence.batches.get(batch["batchId"])
        items = rows.items if rows else ()
        ended = sum(each in evidence.tables and has_ended(evidence.tables[each]) for each in items)
        whole = len(items) == ended == batch["size"]
        found = f"has {len(items)} items, of which {ended} have ended"
        yield (
            None
            if whole
            else f"batch {batch['batchId']} of {batch['size']} items was acknowledged, and {found}"
        )


def _ended_without_redis(evidence: Evidence) -> Iterator[str | None]:
    if not any(each.process == _REDIS for each in evidence.history.faults):
        return
    for job_id, rows in evidence.tables.items():
        yield None if has_ended(rows) else f"Redis was lost, and job {job_id} is still {rows.state}"


def _found_again(evidence: Evidence) -> Iterator[str | None]:
    for wait in evidence.samples.waits:
        late = f"after {wait.after}, jobs waited {wait.seconds:.1f} s of at most {wait.seconds_max:.0f} s"
        yield None if wait.seconds <= wait.seconds_max else late


INVARIANTS = (
    Invariant(1, "nothing lost", "a job whose creation was acknowledged is there, and ends", _kept),
    Invariant(
        1, "no batch lost", "a batch that was acknowledged is there whole, and its items end", _batches_kept
    ),
    Invariant(
        7, "Redis is no truth", "if Redis loses everything, every job still ends", _ended_without_redis
    ),
    Invariant(7, "found again", "what waits starts in time, whatever became of its entry", _found_again),
)
