"""Takes hints that jobs have changed to the feed of their watchers."""

from __future__ import annotations

from collections.abc import AsyncIterator

from job_api.loops.job_feed import JobFeed
from shared.streams.wake_ups import Hint, JobsChanged


class JobHints:
    """One subscription for all watches of a replica."""

    def __init__(self, hints: AsyncIterator[Hint], feed: JobFeed) -> None:
        self._hints = hints
        self._feed = feed

    async def step(self) -> bool:
        """Wait for a hint and pass it on; there may always be more."""
        hint = await anext(self._hints)
        if isinstance(hint, JobsChanged):
            self._feed.note(hint.job_ids)
        return True
