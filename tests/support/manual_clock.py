"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

_STEPS_TO_SETTLE = 20
"""Turns of the event loop for woken tasks to run up to their next wait."""


class ManualClock:
    """A process's clock under a test's control; sleepers wake in the order of their times."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = timedelta()
        self._sleepers: list[tuple[timedelta, asyncio.Future[None]]] = []
        self._changed = asyncio.Event()

    async def sleep(self, duration: timedelta) -> None:
        if duration <= timedelta():
            await asyncio.sleep(0)
            return
        sleeper = (self._elapsed + duration, asyncio.get_running_loop().create_future())
        self._sleepers.append(sleeper)
        self._changed.set()
        try:
            await sleeper[1]
        finally:
            self._sleepers.remove(sleeper)

    def monotonic(self) -> float:
        return self._elapsed.total_seconds()

    def now(self) -> datetime:
        return self._start + self._elapsed

    @property
    def sleeping(self) -> list[timedelta]:
        """How long each sleeper has left, shortest first."""
        return sorted(due - self._elapsed for due, future in self._sleepers if not future.done())

    async def until_sleeping(self, count: int = 1) -> None:
        """Wait until at least so many sleep: what they did before their sleep is then done."""
        while len(self.sleeping) < count:
            self._changed.clear()
            await self._changed.wait()

    async def advance(self, duration: timedelta) -> None:
        """Move the time, stopping at each sleeper's time on the way so that it wakes at that time."""
        target = self._elapsed + duration
        while due := [each for each in self._sleepers if each[0] <= target and not each[1].done()]:
            time, future = min(due, key=lambda each: each[0])
            self._elapsed = max(self._elapsed, time)
            future.set_result(None)
            await self._settle()
        self._elapsed = target
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(_STEPS_TO_SETTLE):
            await asyncio.sleep(0)
