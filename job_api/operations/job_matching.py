"""Which jobs a filter lets through, decided in memory as the list decides it in SQL."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from typing import Any

from job_api.operations.job_filters import JobFilter
from shared.domain.jobs import TRANSITIONS, Job, JobState

_ALIKE = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _has_text(job: Job, wanted: str) -> bool:
    """Letters beyond ASCII count alike in both cases only for a database whose locale says so."""
    searched = (
        job.target.id if job.target is not None else "",
        job.error.code if job.error is not None else "",
        job.error.message if job.error is not None else "",
    )
    folded = wanted.translate(_ALIKE)
    return any(folded in each.translate(_ALIKE) for each in searched)


LETS_THROUGH: Mapping[str, Callable[[Job, Any], bool]] = {
    "owner": lambda job, wanted: job.owner == wanted,
    "states": lambda job, wanted: job.state in wanted,
    "job_type": lambda job, wanted: job.job_type == wanted,
    "queue": lambda job, wanted: job.queue == wanted,
    "created_from": lambda job, wanted: job.create_time >= wanted,
    "created_to": lambda job, wanted: job.create_time < wanted,
    "target_type": lambda job, wanted: job.target is not None and job.target.type == wanted,
    "target_id": lambda job, wanted: job.target is not None and job.target.id == wanted,
    "labels": lambda job, wanted: wanted.items() <= job.labels.items(),
    "text": _has_text,
    "batch_id": lambda job, wanted: job.batch_id == wanted,
}
"""What each field of a filter asks for, where it is set."""


def _states_before(state: JobState) -> frozenset[JobState]:
    """Every state that a job in this one may have been in."""
    found, ends = frozenset[JobState](), frozenset({state})
    while ends:
        sources = frozenset[JobState]().union(*(t.sources for t in TRANSITIONS.values() if t.target in ends))
        ends, found = sources - found, found | sources
    return found


_BEFORE = {state: _states_before(state) for state in JobState}


class JobMatch:
    """A filter, made ready to be asked about many jobs."""

    def __init__(self, job_filter: JobFilter) -> None:
        self._states = job_filter.states
        self._asked = [
            (lets_through, wanted)
            for name, lets_through in LETS_THROUGH.items()
            if name != "states" and (wanted := getattr(job_filter, name))
        ]

    def fits(self, job: Job) -> bool:
        return (not self._states or job.state in self._states) and self._fits_in_all_else(job)

    def was_left(self, job: Job, before: Job | None) -> bool:
        """Whether a job that does not fit has fitted, as far as is known.

        Args:
            before: As it was last seen; None if it never was. Then it may have been in any state that leads
                to the present one.
        """
        if before is not None:
            return self.fits(before)
        return bool(self._states & _BEFORE[job.state]) and self._fits_in_all_else(job)

    def _fits_in_all_else(self, job: Job) -> bool:
        return all(lets_through(job, wanted) for lets_through, wanted in self._asked)
