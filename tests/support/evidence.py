"""Evidence made by hand: a run in which everything is as it must be, to be contradicted in one point."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from verification.evidence.evidence import Evidence
from verification.evidence.history import OK, Call, Fault, Frame, History, Told
from verification.evidence.ledger import Entry
from verification.evidence.samples import Samples
from verification.evidence.tables import JobRows
from verification.invariants.catalog import INVARIANTS
from verification.invariants.invariant import Judgement, judge

JOB = "6a2f0000-0000-4000-8000-000000000001"
OTHER_JOB = "6a2f0000-0000-4000-8000-000000000002"
FIRST, SECOND = "1.first-secret-of-a-lease", "2.second-secret-of-a-lease"
HASH = "5e" * 32


def time(seconds: int) -> str:
    return f"2026-01-01T00:00:{seconds:02}+00:00"


def an_event(number: int, kind: str, state: str, attempt: int, **fields: Any) -> dict[str, Any]:
    return {
        "number": number,
        "kind": kind,
        "state": state,
        "attempt": attempt,
        "event_time": time(number),
        "outcome": None,
        **fields,
    }


def an_attempt(number: int, outcome: str, token: str, **fields: Any) -> dict[str, Any]:
    return {
        "attempt": number,
        "outcome": outcome,
        "token": token,
        "start_time": time(2 * number),
        "end_time": time(2 * number + 1),
        "output_sha256": HASH if outcome == "succeeded" else None,
        **fields,
    }


def an_audit_record(action: str, *, subject: str = "a") -> dict[str, Any]:
    return {"subject": subject, "owner": "a", "action": action, "outcome": "OK"}


def a_job(**fields: Any) -> JobRows:
    """A job whose first attempt was lost and whose second one succeeded.

    Args:
        fields: Of its row in `jobs`, in place of what is set here.
    """
    row = {
        "job_type": "synthetic",
        "owner": "a",
        "created_by": "a",
        "origin_job_id": None,
        "batch_id": None,
        "priority": 50,
        "state": "SUCCEEDED",
        "attempt": 2,
        "failures": 0,
        "losses": 1,
        "create_time": time(1),
        "start_time": time(2),
        "finish_time": time(5),
        "start_by_time": None,
        "next_attempt_time": None,
        "cancel_request_time": None,
        "error_code": None,
        "artifact_count": 0,
        "event_count": 6,
        "output_hash": HASH,
    }
    return JobRows(
        jobs=[{**row, **fields}],
        snapshots=[{"input_bytes": 2}],
        attempts=[an_attempt(1, "lost", FIRST), an_attempt(2, "succeeded", SECOND)],
        events=[
            an_event(1, "created", "QUEUED", 0),
            an_event(2, "started", "RUNNING", 1),
            an_event(3, "attempt_ended", "RUNNING", 1, outcome="lost"),
            an_event(4, "retry_scheduled", "RUNNING", 1),
            an_event(5, "started", "RUNNING", 2),
            an_event(6, "succeeded", "SUCCEEDED", 2),
        ],
        results=[{"attempt": 2, "items": 1}],
        pieces=[
            {"attempt": 1, "number": 1},
            {"attempt": 2, "number": 1},
            {"attempt": 2, "number": 2},
        ],
        keys=[{"key": "key-0001"}],
        outgoing=[{"event_type": "job.succeeded"}],
        audits=[an_audit_record("job.create")],
    )


def a_cancelled_job(**fields: Any) -> JobRows:
    """A job that was cancelled while its first attempt ran."""
    changes = {
        "state": "CANCELLED",
        "attempt": 1,
        "losses": 0,
        "event_count": 5,
        "cancel_request_time": time(3),
    }
    rows = a_job(**{**changes, **fields})
    rows.attempts = [an_attempt(1, "cancelled", FIRST)]
    rows.events = [
        an_event(1, "created", "QUEUED", 0),
        an_event(2, "started", "RUNNING", 1),
        an_event(3, "cancel_requested", "RUNNING", 1),
        an_event(4, "attempt_ended", "RUNNING", 1, outcome="cancelled"),
        an_event(5, "cancelled", "CANCELLED", 1),
    ]
    rows.results, rows.pieces, rows.outgoing = [], [], [{"event_type": "job.cancelled"}]
    rows.audits = [an_audit_record("job.create"), an_audit_record("job.cancel", subject="root")]
    return rows


def evidence(
    rows: JobRows | None = None,
    *,
    calls: Sequence[Call] = (),
    told: Sequence[Told] = (),
    frames: Sequence[Frame] = (),
    faults: Sequence[Fault] = (),
    ledger: Sequence[Entry] = (),
    samples: Samples | None = None,
) -> Evidence:
    """What was seen of one job, `a_job` unless another is given, or of none if it is empty."""
    rows = a_job() if rows is None else rows
    history = History(list(calls), list(told), list(frames), list(faults))
    tables = {JOB: rows} if rows.jobs else {}
    return Evidence(history, ledger, tables, samples or Samples())


def a_creation(
    job_id: str = JOB, document: str = "{}", *, key: str | None = "key-0001", reason: str = "", **fields: Any
) -> Call:
    """A call of CreateJob: acknowledged with the job's id, or refused for a reason."""
    request = {"jobType": "synthetic", "input": base64.b64encode(document.encode()).decode(), **fields}
    request |= {} if key is None else {"idempotencyKey": key}
    answer = None if reason else {"job": {"jobId": job_id, "state": "JOB_STATE_QUEUED"}}
    return Call("me", "CreateJob", request, answer, "ALREADY_EXISTS" if reason else OK, reason, 0, 1)


def a_call(method: str, state: str, *, begin: float, job_id: str = JOB, **fields: Any) -> Call:
    """An acknowledged call about a job, that took a second."""
    answer = {"job": {"jobId": job_id, "state": f"JOB_STATE_{state}", **fields}}
    return Call("me", method, {"jobId": job_id}, answer, OK, "", begin, begin + 1)


def told(update: dict[str, Any], *, at: float = 1, watch: str = "w") -> Told:
    return Told(watch, JOB, update, at)


def told_event(number: int, kind: str, state: str, attempt: int, *, at: float = 1, watch: str = "w") -> Told:
    event = {
        "number": str(number),
        "kind": f"JOB_EVENT_KIND_{kind.upper()}",
        "state": f"JOB_STATE_{state}",
        **({"attempt": attempt} if attempt else {}),
    }
    return told({"event": event}, at=at, watch=watch)


def sent(at: float, session: str = "s", **content: Any) -> Frame:
    return Frame(session, True, content, at)


def received(at: float, session: str = "s", **content: Any) -> Frame:
    return Frame(session, False, content, at)


def a_report(token: str, code: str = "PROVIDER_TIMEOUT") -> dict[str, Any]:
    return {"lease": {"jobId": JOB, "token": token}, "failure": {"code": code}}


def an_answer(token: str, outcome: str) -> dict[str, Any]:
    return {"lease": {"jobId": JOB, "token": token}, "outcome": f"REPORT_OUTCOME_{outcome}"}


def a_lease(token: str, attempt: int) -> dict[str, Any]:
    return {"jobId": JOB, "token": token, "attempt": attempt}


def judgement(name: str, found: Evidence) -> Judgement:
    """Have one invariant judge."""
    (invariant,) = (each for each in INVARIANTS if each.name == name)
    (judged,) = judge([invariant], found)
    return judged


def holds(name: str, found: Evidence) -> bool:
    """Whether facts were found, and all of them hold."""
    judged = judgement(name, found)
    return judged.holds and judged.facts > 0


def is_broken(name: str, found: Evidence) -> bool:
    return not judgement(name, found).holds
