"""Time inside one process. What decides about jobs is the database's time, never this one."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A process's own time: to wait by, to measure with, and to show."""

    async def sleep(self, duration: timedelta) -> None:
        """Return once `duration` has passed; at once if it is zero or negative."""
        ...

    def monotonic(self) -> float:
        """Seconds since an unknown point; never goes back, comparable within this process only."""
        ...

    def now(self) -> datetime:
        """The machine's wall clock, aware and in UTC; for display and logs, never for a decision."""
        ...


class SystemClock:
    """The machine's clocks."""

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.sleep(max(0.0, duration.total_seconds()))

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)
