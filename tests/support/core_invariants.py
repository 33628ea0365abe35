"""What must be true of a job's rows at every moment, whatever happened before.

Each rule stands alone and knows nothing of the code that wrote the rows; it yields a sentence for each fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from shared.domain.identity import JobId
from tests.support.core_rows import JobRows, Row

MAX_RETRIES = 2
LOSSES_MAX = 3

_FINAL_KIND = {"SUCCEEDED": "succeeded", "FAILED": "failed", "CANCELLED": "cancelled"}
_NEXT = {
    None: {"created"},
    "created": {"started", "cancelled"},
    "started": {"attempt_ended", "succeeded", "cancel_requested"},
    "cancel_requested": {"cancel_seen", "attempt_ended"},
    "cancel_seen": {"attempt_ended"},
    "attempt_ended": {"retry_scheduled", "failed", "cancelled"},
    "retry_scheduled": {"started", "cancelled"},
    "succeeded": set(),
    "failed": set(),
    "cancelled": set(),
}


def faults_of(everything: Mapping[JobId, JobRows]) -> list[str]:
    """Say what is wrong with all jobs; empty if nothing is."""
    return [
        f"{job_id}: {fault}" for job_id, rows in everything.items() for rule in RULES for fault in rule(rows)
    ]


def _whole(rows: JobRows) -> Iterator[str]:
    if (len(rows.jobs), len(rows.snapshots)) != (1, 1) or len(rows.leases) > 1:
        yield "there is not one job with one input and at most one lease"


def _dispatched(rows: JobRows) -> Iterator[str]:
    waits = not _ended(rows) and not rows.leases
    waiting_for = [each["attempt"] for each in rows.dispatches]
    if waiting_for != ([rows.job["attempt"] + 1] if waits else []):
        yield f"state {rows.job['state']}, leased: {bool(rows.leases)}, dispatch rows for {waiting_for}"
    due = rows.job["next_attempt_time"] is not None
    if due != waits:
        yield "the next attempt's time is told although none waits, or is not told"


def _finished(rows: JobRows) -> Iterator[str]:
    ended = _ended(rows)
    if ended and rows.leases:
        yield "it has ended and is leased"
    if (rows.job["finish_time"] is not None) != ended:
        yield "its finish time does not fit its state"
    told = [each["event_type"] for each in rows.outgoing]
    if told != ([f"job.{_FINAL_KIND[rows.job['state']]}"] if ended else []):
        yield f"in state {rows.job['state']} other services were told {told}"


def _numbered(rows: JobRows) -> Iterator[str]:
    numbers = [each["number"] for each in rows.events]
    if numbers != list(range(1, rows.job["event_count"] + 1)):
        yield f"its events are numbered {numbers}, and it counts {rows.job['event_count']}"
    times = [each["event_time"] for each in rows.events]
    if times != sorted(times):
        yield "its events' times go backwards"


def _told_in_order(rows: JobRows) -> Iterator[str]:
    before, attempt = None, 0
    for each in rows.events:
        kind = each["kind"]
        if kind not in _NEXT[before]:
            yield f"the event {kind} follows {before}"
        attempt += kind == "started"
        if each["attempt"] != attempt:
            yield f"the event {kind} tells of attempt {each['attempt']} while attempt {attempt} is the last"
        if each["state"] != _state_after(kind, attempt):
            yield f"after the event {kind} the state is told as {each['state']}"
        before = kind
    if rows.events and rows.events[-1]["state"] != rows.job["state"]:
        yield f"its events end in {rows.events[-1]['state']}, and it is {rows.job['state']}"
    if before in ("retry_scheduled", "created") and rows.leases:
        yield f"its events end with {before}, and it is leased"


def _attempted(rows: JobRows) -> Iterator[str]:
    numbers = sorted(each["attempt"] for each in rows.attempts + rows.leases)
    if numbers != list(range(1, rows.job["attempt"] + 1)):
        yield f"attempts {numbers} are there, and it counts {rows.job['attempt']}"
    for each in rows.attempts + rows.leases:
        if not each["token"].startswith(f"{each['attempt']}."):
            yield f"attempt {each['attempt']} has the token {each['token']}"
    told = [(each["attempt"], each["outcome"]) for each in rows.events if each["kind"] == "attempt_ended"]
    told += [(each["attempt"], "succeeded") for each in rows.events if each["kind"] == "succeeded"]
    if told != [(each["attempt"], each["outcome"]) for each in rows.attempts]:
        yield f"its events tell of the ends {told}"


def _succeeded_once(rows: JobRows) -> Iterator[str]:
    successes = sum(each["outcome"] == "succeeded" for each in rows.attempts)
    projections = len(rows.artifacts)
    succeeded = rows.job["state"] == "SUCCEEDED"
    if (successes, projections) != (succeeded, succeeded):
        yield f"{rows.job['state']} with {successes} successes and {projections} projections"


def _cancelled(rows: JobRows) -> Iterator[str]:
    asked = rows.job["cancel_request_time"] is not None
    if asked and rows.job["state"] in ("SUCCEEDED", "FAILED", "QUEUED"):
        yield f"a cancel was accepted, and it is {rows.job['state']}"
    if asked and not _ended(rows) and not rows.leases:
        yield "a cancel was accepted, and it waits for another attempt"
    requested = [place for place, each in enumerate(rows.events) if each["kind"] == "cancel_requested"]
    ends = {each["outcome"] for place in requested for each in rows.events[place:]} - {None, "cancelled"}
    if ends:
        yield f"a cancel was requested, and an attempt then ended as {ends}"
    if rows.job["state"] == "CANCELLED" and not asked:
        yield "it is cancelled, and nobody asked for that"


def _counted(rows: JobRows) -> Iterator[str]:
    outcomes = Counter(each["outcome"] for each in rows.attempts)
    failures, losses = outcomes["failed"] + outcomes["timed_out"], outcomes["lost"]
    if (failures, losses) != (rows.job["failures"], rows.job["losses"]):
        yield f"it counts {rows.job['failures']} failures and {rows.job['losses']} losses, not {outcomes}"
    if failures > MAX_RETRIES + 1 or losses > LOSSES_MAX:
        yield f"{failures} failures and {losses} losses are more than it may have"
    lost = rows.job["state"] == "FAILED" and rows.job["error_code"] == "EXECUTOR_LOST"
    if lost and losses != LOSSES_MAX:
        yield f"it failed as lost with {losses} losses"
    if losses == LOSSES_MAX and not _ended(rows):
        yield "it goes on after its last loss"


RULES: tuple[Callable[[JobRows], Iterator[str]], ...] = (
    _whole,
    _dispatched,
    _finished,
    _numbered,
    _told_in_order,
    _attempted,
    _succeeded_once,
    _cancelled,
    _counted,
)


def _ended(rows: JobRows) -> bool:
    return rows.job["state"] in _FINAL_KIND


def _state_after(kind: str, attempt: int) -> str:
    final = {kind: state for state, kind in _FINAL_KIND.items()}
    return final.get(kind) or ("RUNNING" if attempt else "QUEUED")


def row_of(rows: JobRows) -> Row | None:
    """The dispatch row, while there is one."""
    return rows.dispatches[0] if rows.dispatches else None
