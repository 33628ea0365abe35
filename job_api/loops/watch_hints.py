"""Takes hints that jobs and batches have changed to those who read for their watchers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Protocol, TypeVar

from shared.domain.identity import BatchId, JobId
from shared.streams.wake_ups import BatchesChanged, Hint, JobsChanged

Subject_contra = TypeVar("Subject_contra", contravariant=True)


class Noting(Protocol[Subject_contra]):
    """Reads for watchers."""

    def note(self, subjects: frozenset[Subject_contra], /) -> None:
        """Hear that these have changed."""
        ...


class WatchHints:
    """One subscription for all watches of a replica."""

    def __init__(
        self, hints: AsyncIterator[Hint], *, of_jobs: Collection[Noting[JobId]], of_batches: Noting[BatchId]
    ) -> None:
        self._hints = hints
        self._of_jobs = of_jobs
        self._of_batches = of_batches

    async def step(self) -> bool:
        """Wait for a hint and pass it on; there may always be more."""
        match await anext(self._hints):
            case JobsChanged(job_ids):
                for each in self._of_jobs:
                    each.note(job_ids)
            case BatchesChanged(batch_ids):
                self._of_batches.note(batch_ids)
            case _:
                pass  # for others
        return True
