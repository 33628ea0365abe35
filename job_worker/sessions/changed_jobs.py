"""Hints to watchers that jobs have news, sent behind the backs of those who wait for leases and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol

from shared.domain.identity import JobId

WAITING_MAX = 20_000
"""While Redis is slow: some seconds of work. What is beyond is not hinted at, and found by a poll."""


class Hints(Protocol):
    """The way to the watchers."""

    async def jobs_changed(self, job_ids: Collection[JobId]) -> None: ...


class ChangedJobs:
    """What changed while the last hint was under way goes into one.

    Attributes:
        noted: Set when there is something to say.
    """

    def __init__(self, hints: Hints) -> None:
        self.noted = asyncio.Event()
        self._hints = hints
        self._waiting = set[JobId]()

    def note(self, job_ids: Collection[JobId]) -> None:
        """Have watchers told soon; never waits, and never fails."""
        if job_ids and len(self._waiting) < WAITING_MAX:
            self._waiting.update(job_ids)
            self.noted.set()

    async def step(self) -> bool:
        """Say what waits; there is nothing more then."""
        changed, self._waiting = self._waiting, set()
        await self._hints.jobs_changed(changed)
        return False
