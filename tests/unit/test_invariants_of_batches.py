"""Each rule about batches passes what is right, and catches a contradiction made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.batch_evidence import (
    BATCH,
    a_batch,
    a_moment,
    an_event,
    batch_evidence,
    counted,
    its_jobs,
)
from tests.support.evidence import holds, is_broken
from verification.invariants.catalog import INVARIANTS

OF_BATCHES = [each.name for each in INVARIANTS if each.number == 9]


@pytest.mark.parametrize("name", [each for each in OF_BATCHES if each != "answers add up"])
def test_a_batch_that_is_as_it_must_be_passes(name: str) -> None:
    assert holds(name, batch_evidence())


@pytest.mark.parametrize(
    "fields",
    [
        {"counters": counted(1, 1, 0, 0, 0), "items": counted(1, 1, 0, 0, 0)},
        {"counters": counted(2, 0, 1, 0, 0)},
        {"items": counted(0, 2, 1, 0, 0)},
        {"size": 4},
    ],
)
def test_counters_that_do_not_add_up_or_are_not_true_are_seen(fields: dict[str, Any]) -> None:
    assert is_broken("counters add up", batch_evidence(moment=a_moment(**fields)))


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "PARTIALLY_FAILED"},
        {"counters": counted(0, 0, 3, 0, 0), "items": counted(0, 0, 3, 0, 0)},
        {"settlings": 1},
        {"finished": 1},
    ],
)
def test_a_settling_too_early_too_late_or_untold_is_seen(fields: dict[str, Any]) -> None:
    assert is_broken("settled when closed", batch_evidence(moment=a_moment(**fields)))


def test_events_with_a_gap_or_wrong_counters_are_seen() -> None:
    gap, sums, last = a_batch(event_count=7), a_batch(), a_batch(state="FAILED")
    sums.events = [*sums.events[:3], an_event(4, "RUNNING", counted(1, 1, 1, 1, 0), 2), *sums.events[4:]]
    for rows in (gap, sums, last):
        assert is_broken("batch events", batch_evidence(rows))


def test_a_settling_that_is_told_twice_or_never_is_seen() -> None:
    twice, never, wrong = a_batch(), a_batch(), a_batch(settlings=2)
    twice.outgoing = [*twice.outgoing, {"dedupe_key": f"batch.finished:{BATCH}:2"}]
    never.outgoing = []
    for rows in (twice, never, wrong):
        assert is_broken("settled once", batch_evidence(rows))


def test_an_end_that_is_told_twice_or_of_no_job_is_seen() -> None:
    twice, jobs = a_batch(), its_jobs()
    twice.events = [*twice.events, twice.events[3]]
    assert is_broken("items end once", batch_evidence(twice))
    del jobs["job-2"]
    assert is_broken("items end once", batch_evidence(jobs=jobs))


@pytest.mark.parametrize(("waiting", "right"), [(2, True), (1, False)])
def test_what_callers_are_told_is_added_up(waiting: int, right: bool) -> None:
    batch = {"batchId": BATCH, "size": 3, "counters": {"waiting": waiting, "succeeded": 1}}
    for answer in ({"batch": batch}, {"batches": [batch]}):
        found = batch_evidence(answer=answer)
        assert (holds if right else is_broken)("answers add up", found)


@pytest.mark.parametrize("lost", ["", "job-2"])
def test_a_batch_that_was_acknowledged_is_there_whole(lost: str) -> None:
    jobs = {job_id: rows for job_id, rows in its_jobs().items() if job_id != lost}
    found = batch_evidence(jobs=jobs, answer={"batch": {"batchId": BATCH, "size": 3}}, method="CreateBatch")
    assert (is_broken if lost else holds)("no batch lost", found)


def test_a_key_that_makes_two_batches_is_seen() -> None:
    found = batch_evidence(answer={"batch": {"batchId": BATCH, "size": 3}}, method="CreateBatch")
    assert holds("one batch a key", found)
    other = {"batch": {"batchId": "another", "size": 3}}
    found.history.calls.append(replace(found.history.calls[0], response=other))
    assert is_broken("one batch a key", found)


def test_a_batch_that_no_answer_tells_of_is_seen() -> None:
    found = batch_evidence(answer={"batch": {"batchId": "another", "size": 3}}, method="CreateBatch")
    assert is_broken("one batch a key", found)
