"""Processes that end with the suite, however that ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from shared.command.launcher import launched

BATON = (sys.executable, "-m", "shared.command.main")
EXECUTOR = (*BATON, "executor", "--job-type", "synthetic")


async def started(
    argv: Sequence[str], *, environment: Mapping[str, str], log_file: Path, own_session: bool = False
) -> asyncio.subprocess.Process:
    """Start a program; what it prints is added to its log.

    Args:
        own_session: Whether it leads a session, so that all below it can be killed at once.
    """
    with log_file.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *launched(argv),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=own_session,
        )
