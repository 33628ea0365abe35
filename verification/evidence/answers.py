"""What the history says about single jobs, whichever call or watch said it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from verification.evidence.history import Call, History, Message

QUEUED = "JOB_STATE_QUEUED"
RUNNING = "JOB_STATE_RUNNING"
SUCCEEDED = "JOB_STATE_SUCCEEDED"
FAILED = "JOB_STATE_FAILED"
CANCELLED = "JOB_STATE_CANCELLED"
_NOTHING: Message = MappingProxyType({})

ENDS = frozenset({SUCCEEDED, FAILED, CANCELLED})


@dataclass(frozen=True, slots=True)
class Sighting:
    """A job's state as an answer told it, true at some time between the call's begin and end."""

    job_id: str
    state: str
    method: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Creation:
    """One job that a caller asked for, and what became of that.

    Attributes:
        job_id: Empty unless it was acknowledged.
        reason: The engine's, if it was refused; with neither, nobody knows.
    """

    caller: str
    request: Message
    job_id: str
    reason: str

    @property
    def key(self) -> tuple[str, str, str, str] | None:
        """Whose key it is, for which job type; None without one."""
        key = self.request.get("idempotencyKey")
        if key is None:
            return None
        return (self.caller, self.request.get("owner", ""), self.request.get("jobType", ""), key)


def sightings(history: History) -> Iterator[Sighting]:
    """Every state of every job that any answer told, in the order in which the answers came."""
    for call in history.calls:
        for job in _jobs(call.response or {}):
            yield Sighting(job["jobId"], job.get("state", ""), call.method, call.begin, call.end)


def told_ends(history: History) -> Iterator[tuple[str, str]]:
    """Job and state of every end that a watch told of; watches tell events, old ones too, and no states."""
    for told in history.told:
        event = told.update.get("event", {})
        if event.get("state") in ENDS:
            yield told.job_id, event["state"]


def creations(history: History) -> Iterator[Creation]:
    """Every job that was asked for, with the answer to it."""
    for call in history.calls:
        if call.method == "CreateJob":
            yield _alone(call)
        elif call.method == "CreateJobs":
            yield from _together(call)


def body(request: Message) -> str:
    """A creation's content without the key and with its input canonical: equal for two that mean the same."""
    content = {name: value for name, value in request.items() if name not in ("idempotencyKey", "input")}
    raw = base64.b64decode(request.get("input", ""))
    try:
        document = json.loads(raw)
    except ValueError:
        document = raw.decode(errors="replace")
    return json.dumps([content, document], sort_keys=True)


def _alone(call: Call) -> Creation:
    created = call.response or {}
    return Creation(call.caller, call.request, created.get("job", {}).get("jobId", ""), call.reason)


def _together(call: Call) -> Iterator[Creation]:
    requests: Sequence[Message] = call.request.get("jobs", [])
    outcomes: Sequence[Message] = call.response.get("outcomes", []) if call.response else []
    for request, outcome in zip_longest(requests, outcomes, fillvalue=_NOTHING):
        created, error = outcome.get("created", {}), outcome.get("error", {})
        job_id = created.get("job", {}).get("jobId", "")
        yield Creation(call.caller, request, job_id, error.get("reason", call.reason))


def _jobs(response: Message) -> Iterator[Any]:
    if "job" in response:
        yield response["job"]
    yield from response.get("jobs", ())
    for outcome in response.get("outcomes", ()):
        if "created" in outcome:
            yield outcome["created"]["job"]
