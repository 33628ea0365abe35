"""The executor under test as a process, with a scripted service of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from verification.peers.service import ScriptedService, scripted_service
from verification.stage import processes
from verification.unmet import Unmet

_LOG_LINES = 5
_LOG_BYTES = 4_000


@dataclass(frozen=True, slots=True)
class Command:
    """How the executor is started.

    Attributes:
        argv: The program and its arguments.
        environment: Variables beside those of this process.
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class Tested:
    """One life of the executor."""

    def __init__(self, process: asyncio.subprocess.Process, service: ScriptedService, log_file: Path) -> None:
        self.service = service
        self._process = process
        self._log_file = log_file

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def last_words(self) -> str:
        """The end of its log."""
        text = self._log_file.read_bytes()[-_LOG_BYTES:].decode(errors="replace")
        return "\n".join(text.splitlines()[-_LOG_LINES:])

    def terminate(self) -> None:
        """Tell it to stop."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    async def exit_code(self, seconds: float) -> int:
        """Wait for its end.

        Raises:
            Unmet: It still runs after so long.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._process.wait()
        except TimeoutError:
            raise Unmet(f"it had not ended after {seconds:.0f} s") from None

    async def kill(self) -> None:
        """Kill it, and all that it started and that stayed in its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def started(command: Command, log_file: Path) -> AsyncIterator[Tested]:
    """Start it against a service on a port of its own; both end with the block."""
    async with scripted_service() as service:
        environment = {**os.environ, **command.environment, "BATON_EXECUTION_ADDRESS": service.address}
        process = await processes.started(
            command.argv, environment=environment, log_file=log_file, own_session=True
        )
        tested = Tested(process, service, log_file)
        try:
            yield tested
        finally:
            await tested.kill()
