"""What holds of events and watches: numbered without gaps, and told to each watcher once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from verification.evidence.evidence import Evidence
from verification.evidence.history import Told
from verification.evidence.tables import JobRows
from verification.invariants.invariant import Invariant
from verification.invariants.rows import of_each_job

_KIND, _STATE = "JOB_EVENT_KIND_", "JOB_STATE_"


def without_gaps(rows: JobRows) -> Iterator[str]:
    """Events are numbered 1, 2, 3 and so on, and their times never go backwards."""
    numbers = [each["number"] for each in rows.events]
    if numbers != list(range(1, rows.job["event_count"] + 1)):
        yield f"its events are numbered {numbers}, and it counts {rows.job['event_count']}"
    times = [each["event_time"] for each in rows.events]
    if times != sorted(times):
        yield "its events' times go backwards"


def _pieces_without_gaps(rows: JobRows) -> Iterator[str]:
    by_attempt: dict[int, list[int]] = {}
    for each in rows.pieces:
        by_attempt.setdefault(each["attempt"], []).append(each["number"])
    for attempt, numbers in by_attempt.items():
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            yield f"the pieces of attempt {attempt} are numbered {sorted(numbers)}"


def _watched_without_gaps(evidence: Evidence) -> Iterator[str | None]:
    for (watch, job_id), told in _by_watch(evidence).items():
        numbers = [int(each.update["event"]["number"]) for each in told if "event" in each.update]
        for before, after in pairwise(numbers):
            fits = after == before + 1
            yield None if fits else f"watch {watch} of job {job_id} was told event {after} after {before}"


def _watched_truly(evidence: Evidence) -> Iterator[str | None]:
    for told in evidence.history.told:
        event, rows = told.update.get("event"), evidence.tables.get(told.job_id)
        if event is None or rows is None:
            continue
        number = int(event["number"])
        row = rows.events[number - 1] if number <= len(rows.events) else {}
        found = (event["kind"], event["state"], event.get("attempt", 0))
        kept = (f"{_KIND}{row.get('kind', '')}".upper(), f"{_STATE}{row.get('state')}", row.get("attempt"))
        yield (
            None if found == kept else f"a watch of {told.job_id} was told {found} as event {number}: {kept}"
        )


def _pieces_watched_without_gaps(evidence: Evidence) -> Iterator[str | None]:
    """A watcher may begin anywhere in an attempt; after that it gets every piece once."""
    for (watch, job_id), told in _by_watch(evidence).items():
        pieces = [each.update["piece"] for each in told if "piece" in each.update]
        places = [(each.get("attempt", 0), each["number"]) for each in pieces]
        for before, after in pairwise(places):
            fits = after in ((before[0], before[1] + 1), (max(after[0], before[0] + 1), 1))
            yield None if fits else f"watch {watch} of job {job_id} was told piece {after} after {before}"


def _by_watch(evidence: Evidence) -> dict[tuple[str, str], list[Told]]:
    """What each watcher was told of each job, in the order of telling."""
    found: dict[tuple[str, str], list[Told]] = {}
    for told in evidence.history.told:
        found.setdefault((told.watch, told.job_id), []).append(told)
    return found


INVARIANTS = (
    Invariant(8, "events numbered", "events are numbered 1, 2, 3, without gaps", of_each_job(without_gaps)),
    Invariant(
        8,
        "pieces numbered",
        "the pieces of an attempt are numbered 1, 2, 3, without gaps",
        of_each_job(_pieces_without_gaps),
    ),
    Invariant(
        8,
        "events watched",
        "a watcher gets every next event, each once, resumed or not",
        _watched_without_gaps,
    ),
    Invariant(8, "told truly", "what a watcher is told of an event is what is stored", _watched_truly),
    Invariant(
        8, "pieces watched", "a watcher gets every next piece, each once", _pieces_watched_without_gaps
    ),
)
