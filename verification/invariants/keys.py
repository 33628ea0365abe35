"""What holds of idempotency keys: same key and body, same job; same key and another body, refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from verification.evidence import answers
from verification.evidence.answers import Creation
from verification.evidence.evidence import Evidence
from verification.evidence.tables import JobRows
from verification.invariants.invariant import Invariant

_REUSED = "IDEMPOTENCY_KEY_REUSED"


def _one_job(evidence: Evidence) -> Iterator[str | None]:
    """A fact for each key that made a job."""
    for key, asked in _by_key(evidence).items():
        jobs = {each.job_id for each in asked if each.job_id}
        if jobs:
            yield None if len(jobs) == 1 else f"the key {key[-1]} made the jobs {sorted(jobs)}"


def _one_body(evidence: Evidence) -> Iterator[str | None]:
    """A fact for each answer to a key that was used more than once."""
    for key, asked in _by_key(evidence).items():
        bodies = {answers.body(each.request) for each in asked if each.job_id} if len(asked) > 1 else set()
        if len(bodies) > 1:
            yield f"the key {key[-1]} was accepted with {len(bodies)} different bodies"
        for each in asked if len(bodies) == 1 else ():
            if each.job_id or each.reason == _REUSED:
                same = answers.body(each.request) in bodies
                fits = same == bool(each.job_id)
                yield None if fits else f"the key {key[-1]} with the same body was refused as used"


def _made_once(evidence: Evidence) -> Iterator[str | None]:
    """In the database: each key names the job that was answered, and no job stands beside them."""
    keyed = {each.job_id: each.request["idempotencyKey"] for each in _keyed(evidence) if each.job_id}
    for job_id, key in keyed.items():
        rows = evidence.tables.get(job_id)
        if rows is not None:
            kept = [each["key"] for each in rows.keys]
            yield (
                None
                if kept == [key]
                else f"job {job_id} was made with the key {key}, and is kept with {kept}"
            )
    keyless_jobs = sum(not rows.keys and not _is_item(rows) for rows in evidence.tables.values())
    keyless = sum(each.key is None for each in answers.creations(evidence.history))
    if keyed:
        fits = keyless_jobs <= keyless
        yield None if fits else f"{keyless_jobs} jobs have no key, and {keyless} were asked for without one"


def _one_batch(evidence: Evidence) -> Iterator[str | None]:
    """A fact for each key that made a batch; the items have the batch's key alone."""
    found: dict[str, set[str]] = defaultdict(set)
    for call in evidence.history.calls:
        if call.method == "CreateBatch" and call.response is not None and "idempotencyKey" in call.request:
            found[call.request["idempotencyKey"]].add(call.response["batch"]["batchId"])
    for key, batches in found.items():
        yield None if len(batches) == 1 else f"the key {key} made the batches {sorted(batches)}"
    strangers = evidence.batches.keys() - set().union(*found.values())
    if found:
        yield f"batches {sorted(strangers)} were made for no answer" if strangers else None


def _is_item(rows: JobRows) -> bool:
    return bool(rows.jobs) and rows.job.get("batch_id") is not None


def _keyed(evidence: Evidence) -> Iterator[Creation]:
    return (each for each in answers.creations(evidence.history) if each.key is not None)


def _by_key(evidence: Evidence) -> dict[tuple[str, str, str, str], list[Creation]]:
    found: dict[tuple[str, str, str, str], list[Creation]] = defaultdict(list)
    for each in _keyed(evidence):
        assert each.key is not None
        found[each.key].append(each)
    return found


INVARIANTS = (
    Invariant(6, "one job a key", "the same key and body give the same job", _one_job),
    Invariant(6, "one batch a key", "the same key gives the same batch, and no other is made", _one_batch),
    Invariant(6, "one body a key", "the same key with another body is refused", _one_body),
    Invariant(6, "keys and jobs", "a key is kept with its job, and makes no other", _made_once),
)
