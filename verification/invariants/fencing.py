"""What holds of leases: only the current one of a job can change it, and each starts its handler once."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from verification.evidence.evidence import Evidence
from verification.evidence.history import History
from verification.evidence.ledger import FINISHED, STARTED
from verification.evidence.reports import epoch_of, reports
from verification.evidence.tables import JobRows
from verification.invariants.invariant import Invariant
from verification.invariants.rows import of_each_job

_REFUSALS = frozenset({"LEASE_LOST", "REFUSED"})

Successions = Mapping[str, Sequence[tuple[int, float]]]
"""By job: attempts with the first time at which somebody knew that they had begun, both rising."""


def one_after_the_other(rows: JobRows) -> Iterator[str]:
    """A lease begins when the one before it has ended."""
    leased = [*rows.attempts, *rows.leases]
    for before, after in pairwise(leased):
        begin = after.get("start_time") or after["grant_time"]
        if "end_time" not in before or begin < before["end_time"]:
            yield f"attempt {after['attempt']} began before attempt {before['attempt']} had ended"


def _started_once(evidence: Evidence) -> Iterator[str | None]:
    starts = Counter((each.job_id, each.attempt) for each in evidence.ledger if each.phase == STARTED)
    for (job_id, attempt), count in starts.items():
        yield None if count == 1 else f"attempt {attempt} of job {job_id} started its handler {count} times"


def _started_under_a_lease(evidence: Evidence) -> Iterator[str | None]:
    for entry in evidence.ledger:
        rows = evidence.tables.get(entry.job_id)
        if entry.phase != STARTED or rows is None:
            continue
        granted = any(
            each["attempt"] == entry.attempt and each["token"] == entry.token
            for each in (*rows.attempts, *rows.leases)
        )
        yield None if granted else f"a handler of job {entry.job_id} began attempt {entry.attempt} unleased"


def _results_of_their_own(evidence: Evidence) -> Iterator[str | None]:
    """Judged by the outputs, which tell whose they are, and by the ledger of the handlers."""
    begun = {(each.job_id, each.token) for each in evidence.ledger if each.phase == STARTED}
    finished = {(each.job_id, each.token) for each in evidence.ledger if each.phase == FINISHED}
    for job_id, rows in evidence.tables.items():
        for attempt in rows.attempts:
            if attempt["outcome"] != "succeeded":
                continue
            what = f"attempt {attempt['attempt']} of job {job_id} succeeded"
            handler, maker = (job_id, attempt["token"]), attempt.get("output_attempt")
            if maker is not None and maker != attempt["attempt"]:
                yield f"{what} by the output of attempt {maker}"
            elif handler in begun:
                yield None if handler in finished else f"{what}, and its own handler had not finished"


def _stale_reports_refused(evidence: Evidence) -> Iterator[str | None]:
    successions = _successions(evidence.history)
    sent = set[tuple[str, str]]()
    for report in reports(evidence.history):
        again = (report.token, report.content) in sent
        sent.add((report.token, report.content))
        if again or not report.outcome:
            continue
        if (after := _successor(successions, report.job_id, report.epoch)) and after < report.sent:
            refused = report.outcome in _REFUSALS
            what = f"attempt {report.epoch} of job {report.job_id} reported after the next one had begun"
            yield None if refused else f"{what}, and was answered {report.outcome}"


def _stale_pieces_dropped(evidence: Evidence) -> Iterator[str | None]:
    """Judged by what is stored: of each attempt no piece that was first sent when the next one had begun."""
    successions = _successions(evidence.history)
    in_time, late = Counter[tuple[str, int]](), set[tuple[str, int]]()
    for frame in evidence.history.frames:
        for piece in frame.content.get("pieces", ()) if frame.sent else ():
            job_id, epoch = piece["lease"]["jobId"], epoch_of(piece["lease"]["token"])
            after = _successor(successions, job_id, epoch)
            if after is not None and after < frame.time:
                late.add((job_id, epoch))
            else:
                in_time[job_id, epoch] = max(in_time[job_id, epoch], piece["number"])
    for job_id, epoch in sorted(late):
        rows = evidence.tables.get(job_id)
        if rows is not None:
            last = max((each["number"] for each in rows.pieces if each["attempt"] == epoch), default=0)
            dropped = last <= in_time[job_id, epoch]
            yield (
                None
                if dropped
                else f"piece {last} of attempt {epoch} of job {job_id} came late and is stored"
            )


def _current_only_told(evidence: Evidence) -> Iterator[str | None]:
    """Judged by watches: after a start, no progress and no piece of an earlier attempt is told."""
    begun: dict[tuple[str, str], int] = {}
    for told in evidence.history.told:
        watch, update = (told.watch, told.job_id), told.update
        event = update.get("event", {})
        if event.get("kind") == "JOB_EVENT_KIND_STARTED":
            begun[watch] = event["attempt"]
        news = update.get("piece") or update.get("progress")
        if news is not None and watch in begun:
            attempt = news.get("attempt", 0)
            current = attempt >= begun[watch]
            what = f"a watch of job {told.job_id} was told news of attempt {attempt}"
            yield None if current else f"{what} when attempt {begun[watch]} had begun"


def _successions(history: History) -> Successions:
    """When it became known, from leases, events and answers, that each attempt of a job had begun."""
    first: dict[str, dict[int, float]] = defaultdict(dict)

    def known(job_id: str, attempt: int, time: float) -> None:
        first[job_id][attempt] = min(time, first[job_id].get(attempt, time))

    for frame in history.frames:
        for lease in frame.content.get("leases", ()) if not frame.sent else ():
            known(lease["jobId"], lease["attempt"], frame.time)
    for told in history.told:
        event = told.update.get("event", {})
        if event.get("kind") == "JOB_EVENT_KIND_STARTED":
            known(told.job_id, event["attempt"], told.time)
    for call in history.calls:
        job = (call.response or {}).get("job")
        if job is not None and "attempt" in job:
            known(job["jobId"], job["attempt"], call.end)
    return {job_id: sorted(times.items()) for job_id, times in first.items()}


def _successor(successions: Successions, job_id: str, epoch: int) -> float | None:
    """When it was first known that a later attempt had begun; None if there was none."""
    times = successions.get(job_id, ())
    later = times[bisect_left(times, (epoch + 1, 0.0)) :]
    return min((time for _, time in later), default=None)


INVARIANTS = (
    Invariant(
        3,
        "one lease at a time",
        "a lease begins when the last one has ended",
        of_each_job(one_after_the_other),
    ),
    Invariant(3, "one start", "an attempt starts its handler once", _started_once),
    Invariant(3, "leased starts", "a handler starts under a lease that was granted", _started_under_a_lease),
    Invariant(3, "own results", "a job succeeds by the result of its current handler", _results_of_their_own),
    Invariant(3, "stale reports", "a report under an ended lease is refused", _stale_reports_refused),
    Invariant(3, "stale pieces", "a piece under an ended lease is not stored", _stale_pieces_dropped),
    Invariant(3, "current news", "watchers are told of the current attempt only", _current_only_told),
)
