"""The protocol's checks on what ships: a stack's services, and `baton executor`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from verification.conformance.executors.running import run_checks
from verification.conformance.executors.tested import Command
from verification.conformance.services.running import check_target
from verification.outcomes import Outcome
from verification.stage import stack
from verification.stage.processes import EXECUTOR

_CALLER = "verify"


async def check_shipped(directory: Path) -> AsyncIterator[Outcome]:
    """Check the services of a stack of its own, then the executor.

    Args:
        directory: For everything that is written; made if need be.
    """
    place = directory / "stack-services"
    await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
    with stack.starting(place, executors=0, environment=stack.SHORT_TIMES) as running:
        await asyncio.to_thread(running.until_ready)  # Ctrl-C does not wait for it
        token = running.token(_CALLER)
        async for each in check_target(running.control, running.execution, token=token, directory=place):
            yield each
    async for each in run_checks(Command(EXECUTOR), directory / "executors"):
        yield each
