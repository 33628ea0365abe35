"""Tells whoever started the executor that it can be given work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from shared.runtime.clock import Clock
from shared.runtime.faults import StartupFault
from shared.runtime.loops import Loop, Timetable, background

_ONCE = timedelta(days=365)
"""It is told once."""


@asynccontextmanager
async def told(ready_file: Path | None, welcomed: asyncio.Event, *, clock: Clock) -> AsyncIterator[None]:
    """Make the file once the executor is welcomed, and remove it when the block ends.

    Raises:
        StartupFault: The file can't be made.
    """
    if ready_file is None:
        yield
        return

    async def step() -> bool:
        await welcomed.wait()
        try:
            ready_file.touch()  # noqa: ASYNC240 - a moment
        except OSError as error:
            raise StartupFault(f"BATON_READY_FILE can't be made: {error.strerror}") from error
        return False

    try:
        async with background(Loop("readiness", step, Timetable(_ONCE)), clock=clock):
            yield
    finally:
        ready_file.unlink(missing_ok=True)  # noqa: ASYNC240 - a moment
