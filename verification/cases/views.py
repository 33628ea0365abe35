"""Whether all that tells of a job tells the same: calls, lists, watchers, the database, and the handlers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from verification.evidence.ledger import STARTED
from verification.evidence.tables import LABEL
from verification.stage.stage import Stage
from verification.unmet import require

_PAGE_SIZE = 200


def word(kind: Any, value: int) -> str:
    """A value of a protobuf enum as the database writes it: `JOB_STATE_QUEUED` as `QUEUED`."""
    prefixes = {
        job_pb2.JobState: "JOB_STATE_",
        job_pb2.AttemptOutcome: "ATTEMPT_OUTCOME_",
        job_pb2.JobEventKind: "JOB_EVENT_KIND_",
    }
    return str(kind.Name(value)).removeprefix(prefixes[kind])


def described(job: job_pb2.Job) -> str:
    """How a job is, for the sentence of a failure."""
    counted = f"{job.failure_count} failures and {job.loss_count} losses"
    return f"{word(job_pb2.JobState, job.state)} {job.error.code} with {counted}"


async def outcomes(stage: Stage, job_id: str) -> list[str]:
    """How a job's attempts ended, first to last, for example `["LOST", "SUCCEEDED"]`."""
    return [word(job_pb2.AttemptOutcome, each.outcome) for each in await stage.control.attempts(job_id)]


async def require_outcomes(stage: Stage, job_id: str, expected: Sequence[str]) -> None:
    found = await outcomes(stage, job_id)
    require(found == list(expected), f"the attempts ended {found}, not {expected}")


async def row(stage: Stage, job_id: str) -> Mapping[str, Any]:
    """A job as the database has it."""
    found = await stage.value("select to_jsonb(j) from jobs j where job_id = $1", job_id)
    return json.loads(found)  # type: ignore[no-any-return]


async def listed(stage: Stage) -> Mapping[str, job_pb2.Job]:
    """Read all jobs of the run by pages; by job id."""
    request = pb.ListJobsRequest(page_size=_PAGE_SIZE, filter=pb.JobFilter(labels={LABEL: stage.run}))
    found: dict[str, job_pb2.Job] = {}
    while True:
        page = await stage.control.insist("ListJobs", request)
        found |= {each.job_id: each for each in page.jobs}
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


async def require_agreement(
    stage: Stage, job_id: str, *, listing: Mapping[str, job_pb2.Job] | None = None
) -> job_pb2.Job:
    """Require that nobody tells anything else of a job that has ended than the others; return it.

    Args:
        listing: What `listed` found after the job had ended; asked for without it.
    """
    job = await stage.control.get(job_id)
    in_list = (listing or await listed(stage)).get(job_id, job_pb2.Job())
    require(_told(in_list) == _told(job), f"ListJobs tells {_told(in_list)}, GetJob {_told(job)}")
    stored = await row(stage, job_id)
    require(_stored(stored) == _told(job), f"the database has {_stored(stored)}, GetJob tells {_told(job)}")
    await _require_watched(stage, job)
    await _require_attempts(stage, job)
    left = await stage.value(
        "select (select count(*) from leases where job_id = $1)"
        " + (select count(*) from outbox where aggregate_id = $1 and event_type = 'job.dispatch')",
        job_id,
    )
    require(left == 0, f"job {job_id} has ended, and {left} leases and dispatches of it are left")
    return job


async def _require_watched(stage: Stage, job: job_pb2.Job) -> None:
    updates = await stage.control.watch_to_end(job.job_id)
    events = [each.event for each in updates if each.HasField("event")]
    numbers = [each.number for each in events]
    expected = list(range(1, job.last_event_number + 1))
    require(numbers == expected, f"a watcher saw the events {numbers}, not {expected}")
    last, state = events[-1], word(job_pb2.JobState, job.state)
    kind = word(job_pb2.JobEventKind, last.kind)
    require(kind == state, f"a watcher was told {kind} at the end, GetJob {state}")
    require(
        last.forced == job.cancellation.forced,
        f"a watcher was told forced={last.forced}, GetJob forced={job.cancellation.forced}",
    )
    started = [each.attempt for each in events if each.kind == job_pb2.JOB_EVENT_KIND_STARTED]
    require(
        started == list(range(1, job.attempt + 1)),
        f"a watcher saw the attempts {started} start, GetJob tells of {job.attempt}",
    )


async def _require_attempts(stage: Stage, job: job_pb2.Job) -> None:
    told = await outcomes(stage, job.job_id)
    require(len(told) == job.attempt, f"ListAttempts has {told}, GetJob tells of {job.attempt} attempts")
    stored = await stage.value(
        "select coalesce(array_agg(upper(outcome) order by attempt), '{}') from attempts where job_id = $1",
        job.job_id,
    )
    require(list(stored) == list(told), f"ListAttempts has {told}, the database {stored}")
    won = "SUCCEEDED" in told
    require(
        won == (job.state == job_pb2.JOB_STATE_SUCCEEDED),
        f"the attempts ended {told}, and the job is {word(job_pb2.JobState, job.state)}",
    )
    begun = {each.attempt for each in stage.ledger.of(job.job_id) if each.phase == STARTED}
    require(begun <= set(range(1, job.attempt + 1)), f"handlers began the attempts {begun}, of {job.attempt}")


def _told(job: job_pb2.Job) -> Mapping[str, Any]:
    return {
        "state": word(job_pb2.JobState, job.state) if job.state else "nothing",
        "attempt": job.attempt,
        "failures": job.failure_count,
        "losses": job.loss_count,
        "events": job.last_event_number,
        "cancel requested": job.cancellation.HasField("request_time"),
        "cancel seen": job.cancellation.HasField("seen_time"),
        "forced": job.cancellation.forced,
        "finished": job.HasField("finish_time"),
    }


def _stored(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "state": row["state"],
        "attempt": row["attempt"],
        "failures": row["failures"],
        "losses": row["losses"],
        "events": row["event_count"],
        "cancel requested": row["cancel_request_time"] is not None,
        "cancel seen": row["cancel_seen_time"] is not None,
        "forced": row["cancel_forced"],
        "finished": row["finish_time"] is not None,
    }
