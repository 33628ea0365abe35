"""What handlers wrote down of themselves: lines of `job_id attempt token phase`, in the order of writing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STARTED = "started"
FINISHED = "finished"
_WORDS = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One line.

    Attributes:
        phase: `started`, `finished`, `failed`, `cancelled` or `exiting`.
    """

    job_id: str
    attempt: int
    token: str
    phase: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """The file that the jobs of a check name in their inputs."""

    path: Path

    def entries(self) -> Sequence[Entry]:
        """Return all whole lines; empty before the first handler has begun."""
        if not self.path.exists():
            return []
        lines = (line.split() for line in self.path.read_text().splitlines())
        return [Entry(line[0], int(line[1]), line[2], line[3]) for line in lines if len(line) == _WORDS]

    def of(self, job_id: str) -> Sequence[Entry]:
        return [each for each in self.entries() if each.job_id == job_id]

    def phases_of(self, job_id: str) -> Sequence[str]:
        """What the handlers of a job wrote, first to last."""
        return [each.phase for each in self.of(job_id)]
