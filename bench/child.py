"""A process that the harness starts, and that ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from shared.command.launcher import launched

REPOSITORY = Path(__file__).resolve().parents[1]

_STOP_SECONDS_MAX = 40.0
_POLL_SECONDS = 0.05


class Child:
    """A process whose output goes into a log."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, command: tuple[str, ...], log: Path, environment: Mapping[str, str]) -> Child:
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *launched(command), env=dict(environment), cwd=REPOSITORY, stdout=output, stderr=output
            )
        return cls(process, log)

    @classmethod
    @asynccontextmanager
    async def running(
        cls, command: tuple[str, ...], log: Path, environment: Mapping[str, str]
    ) -> AsyncIterator[Child]:
        child = await cls.start(command, log, environment)
        try:
            yield child
        finally:
            await child.stop()

    @property
    def process_id(self) -> int:
        return self._process.pid

    async def until_printed(self, word: str) -> None:
        """Wait for a line that starts so."""
        while not any(line.startswith(word) for line in self._log.read_text(errors="replace").splitlines()):
            if self._process.returncode is not None:
                raise RuntimeError(f"it has ended:\n{self.last_lines()}")
            await asyncio.sleep(_POLL_SECONDS)

    async def until_ended(self) -> None:
        """Wait for its end, which must be a good one."""
        if await self._process.wait() != 0:
            raise RuntimeError(f"it has failed:\n{self.last_lines()}")

    async def stop(self) -> None:
        """Ask it to stop, and kill it if it is late. Idempotent."""
        if self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_SECONDS_MAX)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def last_lines(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])
