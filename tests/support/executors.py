"""Executors for tests: in this process, and as a process of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from job_worker.executor.app import run
from job_worker.executor.settings import ExecutorSettings

QUICK: dict[str, Any] = {"progress_seconds": 0.05, "grace_seconds": 2.5, "reconnect_seconds_max": 0.2}

_COMMAND = """
import typer
from job_worker.command.groups import register
app = typer.Typer(pretty_exceptions_enable=False)
app.callback()(lambda: None)
register(app)
app()
"""
"""`baton`, in an image that holds `job_worker` only."""


@asynccontextmanager
async def an_executor(address: str, **changes: Any) -> AsyncIterator[asyncio.Task[int]]:
    """Run an executor's main process inside this one; its handler processes are real."""
    told = {"serve_job_types": ("synthetic",), "executor_name": "under test", **QUICK, **changes}
    running = asyncio.create_task(run(ExecutorSettings(execution_address=address, **told)))
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.wait({running})


@asynccontextmanager
async def an_executor_process(
    address: str, *arguments: str, **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `baton executor`, and kill it at the end if it still runs."""
    quick = {f"BATON_{name.upper()}": str(value) for name, value in QUICK.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _COMMAND,
        "executor",
        *(arguments or ("--job-type", "synthetic")),
        env={**os.environ, **quick, "BATON_EXECUTION_ADDRESS": address, **environment},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def handler_processes() -> list[int]:
    """The handler processes of an executor that runs inside this process."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [int(each) for each in children if b"handler_process" in _command_line(each)]


def _command_line(process_id: str) -> bytes:
    try:
        return Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""
