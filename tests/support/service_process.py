"""A service as a process of its own: to be measured, stopped in its tracks, and told to end."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

START_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """A process that serves at an address."""

    process: asyncio.subprocess.Process
    address: str

    def memory_bytes(self) -> int:
        """What of it is in memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def processor_seconds(self) -> float:
        """What it has used of the processor since its start."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def an_api_process(**settings: str) -> AsyncIterator[ServiceProcess]:
    """Run JobControl, on a free port, and kill it at the end if it still runs.

    Args:
        settings: Names without `BATON_`, in lower case.
    """
    async with _running("job_api", {"control_address": "127.0.0.1:0", **settings}) as service:
        yield service


@asynccontextmanager
async def a_worker_process(
    database_url: str, redis_url: str, redis_prefix: str, *, address: str = "127.0.0.1:0", **settings: str
) -> AsyncIterator[ServiceProcess]:
    """Run ExecutionService, and kill it at the end if it still runs.

    Args:
        settings: Names without `BATON_`, in lower case.
    """
    told = {
        "database_url": database_url,
        "redis_url": redis_url,
        "redis_prefix": redis_prefix,
        "execution_address": address,
        **settings,
    }
    async with _running("job_worker", told) as service:
        yield service


@asynccontextmanager
async def _running(module: str, settings: dict[str, str]) -> AsyncIterator[ServiceProcess]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module),
        env={**inherited, **{f"BATON_{name.upper()}": value for name, value in settings.items()}},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    reading: asyncio.Task[bytes] | None = None
    try:
        address = await _address(process.stderr)
        reading = asyncio.create_task(process.stderr.read())  # so that it never waits for a reader
        yield ServiceProcess(process, address)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if reading is not None:
            await reading


async def _address(log: asyncio.StreamReader) -> str:
    """Read the log until it says where the process serves."""
    async with asyncio.timeout(START_SECONDS_MAX):
        while line := (await log.readline()).decode():
            if found := re.search(r'"address": "([^"]+)".*server\.started', line):
                return found[1]
    raise AssertionError("the process ended before it served")
