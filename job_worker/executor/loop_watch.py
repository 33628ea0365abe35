"""Notices when the event loop of a handler process stands still, and who holds it.

A coroutine that computes holds all its neighbours up. A beat on the loop shows how long; a thread that looks
from outside sees whose task is running. If the interpreter lock is held too, the thread looks right after.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

BEAT_SECONDS = 0.1
_LOOK_SECONDS = 0.25
LAG_SECONDS_MIN = 1.0
"""A shorter one is no news."""

Culprit = tuple[str, str]
"""Job type and job id."""
NOBODY: Culprit = ("", "")


class LoopWatch:
    """Tells of each standstill once, when it is over."""

    def __init__(
        self,
        *,
        whose: Callable[[asyncio.Task[object] | None], Culprit],
        told: Callable[[float, Culprit], None],
    ) -> None:
        """Begin to watch the running loop.

        Args:
            whose: Says whose the running task is; called from another thread, while that task runs.
            told: Called on the loop with the lag in seconds.
        """
        self._loop = asyncio.get_running_loop()
        self._whose = whose
        self._told = told
        self._last_beat = time.monotonic()
        self._suspect = NOBODY
        self._loop.call_later(BEAT_SECONDS, self._beat)
        threading.Thread(target=self._look, name="loop-watch", daemon=True).start()

    def _beat(self) -> None:
        now = time.monotonic()
        lag = now - self._last_beat - BEAT_SECONDS
        if lag > LAG_SECONDS_MIN:
            self._told(lag, self._suspect)
        self._last_beat, self._suspect = now, NOBODY
        self._loop.call_later(BEAT_SECONDS, self._beat)

    def _look(self) -> None:
        while not self._loop.is_closed():
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - self._last_beat > BEAT_SECONDS * 2 and self._suspect == NOBODY:
                self._suspect = self._whose(asyncio.current_task(self._loop))
