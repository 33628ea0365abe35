"""The API service as a process of its own, to be measured."""

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
class ApiProcess:
    """A process that serves JobControl at an address."""

    process_id: int
    address: str

    def memory_bytes(self) -> int:
        """What of it is in memory."""
        pages = int(Path(f"/proc/{self.process_id}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def processor_seconds(self) -> float:
        """What it has used of the processor since its start."""
        fields = Path(f"/proc/{self.process_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def an_api_process(**settings: str) -> AsyncIterator[ApiProcess]:
    """Run the service on a free port, and kill it at the end.

    Args:
        settings: Names without `BATON_`, in lower case.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}
    told = {"control_address": "127.0.0.1:0", **settings}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "job_api"),
        env={**inherited, **{f"BATON_{name.upper()}": value for name, value in told.items()}},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    reading: asyncio.Task[bytes] | None = None
    try:
        address = await _address(process.stderr)
        reading = asyncio.create_task(process.stderr.read())  # so that it never waits for a reader
        yield ApiProcess(process.pid, address)
    finally:
        process.kill()
        await process.wait()
        if reading is not None:
            await reading


async def _address(log: asyncio.StreamReader) -> str:
    async with asyncio.timeout(START_SECONDS_MAX):
        while line := (await log.readline()).decode():
            if found := re.search(r'"address": "([^"]+)".*server\.started', line):
                return found[1]
    raise AssertionError("the process ended before it served")
