"""Brings the model's jobs and the database's rows into one form, so that they can be compared."""

from __future__ import annotations

from typing import Any

from tests.support.core_model_job import ModelJob, ModelLease
from tests.support.core_rows import id_of, time_of
from verification.evidence.tables import JobRows, Row

_SAME_NAMES = ("state", "attempt", "failures", "internal_failures", "losses", "give_backs", "run_alone")


def view_of_model(job: ModelJob) -> dict[str, Any]:
    return {
        **{name: getattr(job, name) for name in _SAME_NAMES},
        "refused_by": job.refused_by,
        "cancel": (job.cancel_time, job.cancel_seen, job.cancel_forced),
        "error": job.error_code,
        "next": job.due,
        "finish": job.finish_time,
        "start_by": job.start_by,
        "row": job.row and (job.row, job.attempt + 1, job.available, job.delivered_time, job.stream),
        "lease": job.lease and _model_lease(job.lease),
        "events": job.events,
        "attempts": [
            (each["attempt"], each["token"], each["outcome"], each.get("report", ""), each.get("answer", ""))
            for each in job.attempts
        ],
        "outgoing": job.outgoing,
    }


def view_of_rows(rows: JobRows) -> dict[str, Any]:
    job, dispatch = rows.job, rows.dispatch
    asked = time_of(job["cancel_request_time"])
    return {
        **{name: job[name] for name in _SAME_NAMES},
        "refused_by": {id_of(each) for each in job["refused_by"]},
        "cancel": (asked, job["cancel_seen_time"] is not None, job["cancel_forced"]),
        "error": job["error_code"],
        "next": time_of(job["next_attempt_time"]),
        "finish": time_of(job["finish_time"]),
        "start_by": time_of(job["start_by_time"]),
        "row": dispatch and _dispatch(dispatch),
        "lease": rows.lease and _lease(rows.lease),
        "events": [(each["kind"], each["state"], each["attempt"], each["outcome"]) for each in rows.events],
        "attempts": [
            (each["attempt"], each["token"], each["outcome"], each["report_hash"], each["answer"])
            for each in rows.attempts
        ],
        "outgoing": [each["event_type"] for each in rows.outgoing],
    }


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    return [
        f"{name}: expected {expected[name]!r}, found {found[name]!r}"
        for name in expected
        if expected[name] != found[name]
    ]


def _dispatch(row: Row) -> tuple[Any, ...]:
    times = (time_of(row["available_time"]), time_of(row["delivered_time"]))
    return (row["state"], row["attempt"], *times, row["stream"])


def _model_lease(lease: ModelLease) -> tuple[Any, ...]:
    return (
        lease.token,
        lease.session_id,
        lease.incarnation_id,
        lease.accepted,
        lease.progress,
        lease.grant_time,
        lease.heartbeat_time,
        lease.reprieve_time,
        lease.deadline_time,
    )


def _lease(row: Row) -> tuple[Any, ...]:
    times = ("grant_time", "heartbeat_time", "reprieve_time", "deadline_time")
    return (
        row["token"],
        id_of(row["session_id"]),
        id_of(row["incarnation_id"]),
        row["accepted"],
        row["progress"],
        *(time_of(row[name]) for name in times),
    )
