"""Takes hints that jobs have changed to those who read for their watchers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from shared.domain.identity import JobId
from shared.streams.wake_ups import Hint, JobsChanged


class Noting(Protocol):
    """Reads for watchers of jobs."""

    def is_watched(self) -> bool:
        """Whether hints are of any use."""
        ...

    def note(self, job_ids: frozenset[JobId], /) -> None:
        """Hear that these jobs have changed."""
        ...


class JobHints:
    """One subscription for all watches of a replica."""

    def __init__(self, hints: AsyncIterator[Hint], *readers: Noting) -> None:
        self._hints = hints
        self._readers = readers

    async def step(self) -> bool:
        """Wait for a hint and pass it on; there may always be more."""
        hint = await anext(self._hints)
        if isinstance(hint, JobsChanged):
            for each in self._readers:
                each.note(hint.job_ids)
        return True
