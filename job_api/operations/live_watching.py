"""Live views in memory: what has changed and waits to be shown, the latest of each job."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from job_api.operations.job_filters import JobFilter
from job_api.operations.subscriptions import EndReason, KeepAlive
from shared.domain.identity import JobId
from shared.domain.jobs import Job

WAITING_MAX = 10_000
"""Jobs that may wait for one watcher, some 10 MB if nobody else is shown them; with more it is ended."""


@dataclass(frozen=True, slots=True)
class Began:
    """From here on changes are shown."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A job as it is now.

    Attributes:
        left: It fitted the filter and no longer does.
    """

    job: Job
    left: bool


LiveUpdate = Began | Shown | KeepAlive | EndReason


class LiveView:
    """One watch of many jobs: a reader shows changes, one stream takes them; all in one event loop."""

    def __init__(self, job_filter: JobFilter) -> None:
        self.job_filter = job_filter
        self._began: Began | None = None
        self._waiting: dict[JobId, Shown] = {}
        self._end: EndReason | None = None
        self._stirred = asyncio.Event()

    @property
    def ended(self) -> bool:
        return self._end is not None

    def begin(self) -> None:
        self._began = Began()
        self._stirred.set()

    def show(self, shown: Shown) -> None:
        """Let a job wait to be shown, at the place of what waits of it already; too many end the view."""
        if self.ended:
            return
        self._waiting[shown.job.job_id] = shown
        self._stirred.set()
        if len(self._waiting) > WAITING_MAX:
            self.end(EndReason.SLOW)

    def end(self, why: EndReason) -> None:
        """End the view at once: the next one begins anew. The first end counts."""
        if self._end is None:
            self._end = why
            self._waiting.clear()
            self._stirred.set()

    async def take(self, *, keep_alive_seconds: float) -> LiveUpdate:
        """Wait for the next update; after `EndReason` there is none."""
        try:
            async with asyncio.timeout(keep_alive_seconds):
                while not (self._began or self._waiting or self._end):
                    self._stirred.clear()
                    await self._stirred.wait()
        except TimeoutError:
            return KeepAlive()
        if self._end is not None:
            return self._end
        if self._began is not None:
            began, self._began = self._began, None
            return began
        return self._waiting.pop(next(iter(self._waiting)))


class LiveReader(Protocol):
    """Reads what changes for all live views together."""

    def join(self, view: LiveView) -> None:
        """Begin the view, and show it what changes."""
        ...

    def leave(self, view: LiveView) -> None:
        """Show it nothing more; nothing happens if it has left."""
        ...
