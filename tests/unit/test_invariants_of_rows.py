"""Each rule about a job's rows passes what is right, and catches a contradiction made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.evidence import (
    FIRST,
    OTHER_JOB,
    a_cancelled_job,
    a_job,
    an_attempt,
    an_audit_record,
    an_event,
    evidence,
    holds,
    is_broken,
    time,
)
from verification.evidence.tables import JobRows
from verification.invariants.catalog import INVARIANTS

OF_ROWS = [
    "one result",
    "one projection",
    "one message",
    "one output",
    "one lease at a time",
    "cancel wins",
    "events numbered",
    "pieces numbered",
    "attempts numbered",
    "failures and losses",
    "no fault, no failure",
    "legal changes",
    "dispatch rows",
    "nothing left",
    "one audit record",
]


def a_running_job() -> JobRows:
    """It waits for its second attempt."""
    rows = a_job(
        state="RUNNING", attempt=1, finish_time=None, next_attempt_time=time(9), event_count=4, output_hash=""
    )
    rows.attempts, rows.events = rows.attempts[:1], rows.events[:4]
    rows.results, rows.outgoing, rows.pieces = [], [], rows.pieces[:1]
    rows.dispatches = [{"attempt": 2, "event_type": "job.dispatch"}]
    return rows


def an_ended_job(outcomes: list[str], *, losses: int = 0, failures: int = 0, code: str = "") -> JobRows:
    """It FAILED after attempts with these outcomes."""
    rows = a_job(
        state="FAILED",
        attempt=len(outcomes),
        losses=losses,
        failures=failures,
        error_code=code,
        output_hash="",
    )
    rows.attempts = [
        an_attempt(number, each, f"{number}.secret") for number, each in enumerate(outcomes, start=1)
    ]
    return rows


@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.parametrize("rows", [a_job(), a_cancelled_job(), a_running_job()], ids=lambda rows: rows.state)
def test_what_is_right_is_passed(name: str, rows: JobRows) -> None:
    assert holds(name, evidence(rows))


def test_every_rule_about_rows_is_tried_here() -> None:
    assert set(OF_ROWS) <= {each.name for each in INVARIANTS}


def with_row(rows: JobRows, table: str, place: int, **fields: Any) -> JobRows:
    found = getattr(rows, table)
    found[place] = {**found[place], **fields}
    return rows


def changed(change: Callable[[JobRows], object], rows: JobRows) -> JobRows:
    change(rows)
    return rows


CONTRADICTIONS: list[tuple[str, str, JobRows]] = [
    (
        "two attempts succeed",
        "one result",
        with_row(a_job(), "attempts", 0, outcome="succeeded"),
    ),
    ("an event of success is missing", "one result", changed(lambda rows: rows.events.pop(), a_job())),
    (
        "the event tells of another attempt",
        "one result",
        with_row(a_job(), "events", -1, attempt=1),
    ),
    ("an artifact is missing", "one result", a_job(artifact_count=1)),
    (
        "an artifact without a success",
        "one result",
        changed(lambda rows: rows.artifacts.append({"ordinal": 0}), a_cancelled_job(artifact_count=1)),
    ),
    ("a projection is missing", "one projection", changed(lambda rows: rows.results.clear(), a_job())),
    (
        "the projection is of a lost attempt",
        "one projection",
        with_row(a_job(), "results", 0, attempt=1),
    ),
    (
        "a projection without a success",
        "one projection",
        changed(lambda rows: rows.results.append({"attempt": 1}), a_cancelled_job()),
    ),
    (
        "the end is told twice",
        "one message",
        changed(lambda rows: rows.outgoing.append(rows.outgoing[0]), a_job()),
    ),
    (
        "another end is told",
        "one message",
        with_row(a_job(), "outgoing", 0, event_type="job.failed"),
    ),
    ("the output is another one", "one output", a_job(output_hash="00" * 32)),
    (
        "an attempt begins before the last one ended",
        "one lease at a time",
        with_row(a_job(), "attempts", 1, start_time=time(2)),
    ),
    ("a success after a cancel", "cancel wins", a_job(cancel_request_time=time(3))),
    (
        "a lost attempt after a cancel",
        "cancel wins",
        with_row(a_cancelled_job(), "events", 3, outcome="lost"),
    ),
    ("a cancel that nobody asked for", "cancel wins", a_cancelled_job(cancel_request_time=None)),
    ("an event is missing", "events numbered", changed(lambda rows: rows.events.pop(2), a_job())),
    (
        "an event twice",
        "events numbered",
        changed(lambda rows: rows.events.insert(2, rows.events[2]), a_job()),
    ),
    ("a piece is missing", "pieces numbered", changed(lambda rows: rows.pieces.pop(1), a_job())),
    ("an attempt is missing", "attempts numbered", changed(lambda rows: rows.attempts.pop(0), a_job())),
    (
        "a token of another epoch",
        "attempts numbered",
        with_row(a_job(), "attempts", 1, token=FIRST),
    ),
    (
        "an outcome that there is not",
        "attempts numbered",
        with_row(a_job(), "attempts", 0, outcome="vanished"),
    ),
    ("a loss counted as a failure", "failures and losses", a_job(failures=1, losses=0)),
    ("a fourth failure", "failures and losses", an_ended_job(["failed"] * 4, failures=4)),
    (
        "lost for good too early",
        "failures and losses",
        an_ended_job(["lost", "lost"], losses=2, code="EXECUTOR_LOST"),
    ),
    ("leases given back that fail a job", "no fault, no failure", an_ended_job(["given_back"] * 5)),
    (
        "two losses that fail a job",
        "no fault, no failure",
        an_ended_job(["lost", "given_back", "lost"], losses=2),
    ),
    (
        "an event after the end",
        "legal changes",
        changed(lambda rows: rows.events.append(an_event(7, "started", "RUNNING", 3)), a_job()),
    ),
    (
        "a state that the events do not lead to",
        "legal changes",
        changed(lambda rows: rows.events.pop(), a_job()),
    ),
    (
        "a dispatch row after the end",
        "dispatch rows",
        changed(lambda rows: rows.dispatches.append({"attempt": 3}), a_job()),
    ),
    (
        "no dispatch row while it waits",
        "dispatch rows",
        changed(lambda rows: rows.dispatches.clear(), a_running_job()),
    ),
    (
        "a lease after the end",
        "nothing left",
        changed(lambda rows: rows.leases.append({"attempt": 3}), a_job()),
    ),
    ("no record of its making", "one audit record", changed(lambda rows: rows.audits.clear(), a_job())),
    (
        "two records of its making",
        "one audit record",
        changed(lambda rows: rows.audits.append(an_audit_record("job.create")), a_job()),
    ),
    (
        "a record of a cancel that was none",
        "one audit record",
        changed(lambda rows: rows.audits.append(an_audit_record("job.cancel")), a_job()),
    ),
    (
        "no record of a cancel",
        "one audit record",
        changed(lambda rows: rows.audits.pop(), a_cancelled_job()),
    ),
    (
        "two records of a cancel",
        "one audit record",
        changed(lambda rows: rows.audits.append(an_audit_record("job.cancel")), a_cancelled_job()),
    ),
    ("a record that names another maker", "one audit record", a_job(created_by="b")),
    ("a record that names another owner", "one audit record", a_job(owner="b")),
    ("a record of a new job where it ran again", "one audit record", a_job(origin_job_id=OTHER_JOB)),
    ("a record of its own for an item", "one audit record", a_job(batch_id=OTHER_JOB)),
]


@pytest.mark.parametrize(
    ("name", "rows"), [each[1:] for each in CONTRADICTIONS], ids=[each[0] for each in CONTRADICTIONS]
)
def test_a_contradiction_is_caught(name: str, rows: JobRows) -> None:
    assert is_broken(name, evidence(rows))


def test_every_rule_about_rows_has_a_contradiction() -> None:
    assert {name for _, name, _ in CONTRADICTIONS} == set(OF_ROWS)
