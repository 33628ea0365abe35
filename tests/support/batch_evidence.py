"""Evidence of a batch made by hand: one item succeeded, one failed, one was skipped; to be contradicted."""

from __future__ import annotations

from typing import Any

from tests.support.evidence import a_job
from verification.evidence.batches import COUNTERS, BatchMoment, BatchRows
from verification.evidence.evidence import Evidence
from verification.evidence.history import OK, Call, History
from verification.evidence.samples import Samples
from verification.evidence.tables import JobRows

BATCH = "6a2f0000-0000-4000-8000-0000000000b1"


def counted(*counts: int) -> dict[str, int]:
    """Counters in the order waiting, running, succeeded, failed, skipped."""
    return dict(zip(COUNTERS, counts, strict=True))


def an_event(
    number: int, state: str, counters: dict[str, int], item: int = 0, end: str = ""
) -> dict[str, Any]:
    return {"number": number, "state": state, **counters, "item": item, "item_state": end or None}


def a_batch(**fields: Any) -> BatchRows:
    """A batch of three items that has settled.

    Args:
        fields: Of its row, in place of what is set here.
    """
    row = {
        "batch_id": BATCH,
        "state": "PARTIALLY_FAILED",
        "size": 3,
        **counted(0, 0, 1, 1, 1),
        "event_count": 6,
        "settlings": 1,
    }
    return BatchRows(
        row={**row, **fields},
        events=[
            an_event(1, "QUEUED", counted(3, 0, 0, 0, 0)),
            an_event(2, "RUNNING", counted(2, 1, 0, 0, 0)),
            an_event(3, "RUNNING", counted(1, 1, 1, 0, 0), 1, "SUCCEEDED"),
            an_event(4, "RUNNING", counted(1, 0, 1, 1, 0), 2, "FAILED"),
            an_event(5, "RUNNING", counted(0, 0, 1, 1, 1), 3, "CANCELLED"),
            an_event(6, "PARTIALLY_FAILED", counted(0, 0, 1, 1, 1)),
        ],
        outgoing=[{"dedupe_key": f"batch.finished:{BATCH}:1"}],
        items=["job-1", "job-2", "job-3"],
    )


def its_jobs() -> dict[str, JobRows]:
    """The jobs of `a_batch`, in the order of their items."""
    states = ("SUCCEEDED", "FAILED", "CANCELLED")
    return {
        f"job-{item}": a_job(state=state, batch_id=BATCH, batch_item=item)
        for item, state in enumerate(states, start=1)
    }


def a_moment(**fields: Any) -> BatchMoment:
    """`a_batch` while its second item runs."""
    told: dict[str, Any] = {
        "batch_id": BATCH,
        "time": 1.0,
        "state": "RUNNING",
        "size": 3,
        "counters": counted(1, 1, 1, 0, 0),
        "items": counted(1, 1, 1, 0, 0),
        "settlings": 0,
        "finished": 0,
    }
    return BatchMoment(**{**told, **fields})


def batch_evidence(
    rows: BatchRows | None = None,
    *,
    moment: BatchMoment | None = None,
    jobs: dict[str, JobRows] | None = None,
    answer: dict[str, Any] | None = None,
    method: str = "GetBatch",
) -> Evidence:
    """What was seen of one batch, `a_batch` unless another is given."""
    calls = [Call("me", method, {"idempotencyKey": "key-0001"}, answer, OK, "", 0, 1)] if answer else []
    return Evidence(
        History(calls),
        [],
        its_jobs() if jobs is None else jobs,
        Samples(batches=[moment or a_moment()]),
        {BATCH: rows or a_batch()},
    )
