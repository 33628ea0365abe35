"""What holds of waiting: owners take turns; an owner's more urgent, then older job goes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from verification.evidence.evidence import Evidence
from verification.evidence.samples import Backlog
from verification.evidence.tables import JobRows, Tables
from verification.invariants.invariant import Invariant


def _in_turn(evidence: Evidence) -> Iterator[str | None]:
    """A fact for each job of a backlog; as many as the head held before may be anywhere."""
    for backlog in evidence.samples.backlogs:
        displaced = list(_displaced(backlog, evidence.tables))
        yield from displaced if len(displaced) > backlog.slack else ()
        excused = len(displaced) if len(displaced) <= backlog.slack else 0
        yield from [None] * (len(backlog.job_ids) - len(displaced) + excused)


def _displaced(backlog: Backlog, tables: Tables) -> Iterator[str]:
    places = _places(backlog, tables)
    started = sorted(places, key=lambda job_id: (_began(tables[job_id]), places[job_id]))
    for place, job_id in enumerate(started):
        first, last = places[job_id]
        if not first - backlog.slack <= place <= last + backlog.slack:
            yield f"job {job_id} started as number {place + 1}; its turn was from {first + 1} to {last + 1}"


def _places(backlog: Backlog, tables: Tables) -> dict[str, tuple[int, int]]:
    """From where to where each job's turn is: the first of each owner, then the second of each, and so on."""
    by_owner: dict[str, list[str]] = defaultdict(list)
    for job_id in backlog.job_ids:
        by_owner[tables[job_id].job["owner"]].append(job_id)
    for mine in by_owner.values():
        mine.sort(key=lambda job_id: (tables[job_id].job["priority"], tables[job_id].job["create_time"]))
    counts = [len(mine) for mine in by_owner.values()]
    return {
        job_id: (
            sum(min(count, turn) for count in counts),
            sum(min(count, turn + 1) for count in counts) - 1,
        )
        for mine in by_owner.values()
        for turn, job_id in enumerate(mine)
    }


def _began(rows: JobRows) -> str:
    return str(rows.job["start_time"])


INVARIANTS = (
    Invariant(13, "in turn", "owners take turns; the more urgent, then the older goes first", _in_turn),
)
