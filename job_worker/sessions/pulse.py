"""The service's own sign of life, which also tells whether the database is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from job_worker.operations.record_pulse import RecordPulse
from shared.domain.errors import PlatformUnavailable


class Pulse:
    """Once a second. Without it no lease ends by silence, and the service counts as unable to serve."""

    def __init__(self, record_pulse: RecordPulse, set_serving: Callable[[bool], Awaitable[None]]) -> None:
        self._record_pulse = record_pulse
        self._set_serving = set_serving

    async def step(self) -> bool:
        """Write the pulse, and open or close the health gate by what came of it."""
        try:
            await self._record_pulse()
        except PlatformUnavailable:
            await self._set_serving(False)
            raise
        await self._set_serving(True)
        return False
