"""One more `baton api` on the stack's servers, which nobody but the part starts again.

The stack's own one is kept alive with ever longer waits between its lives; this one can be killed a hundred
times in a minute or two.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from shared.command.data_directory import LOOPBACK, free_port
from shared.command.launcher import launched
from shared.command.process_spec import accepts_connections
from verification.stage.stack import clean_environment
from verification.stage.stage import Stage
from verification.unmet import Unmet

READY_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.05


class SpareApi:
    """It keeps its address over all its lives.

    Attributes:
        address: Where JobControl listens.
    """

    def __init__(self, stage: Stage, name: str) -> None:
        self.name = name
        self._port = free_port()
        self.address = f"{LOOPBACK}:{self._port}"
        self._stage = stage
        self._log_file = stage.directory / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it takes connections.

        Raises:
            Unmet: It does not, or has ended.
        """
        with self._log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *launched([sys.executable, "-m", "shared.command.main", "api"]),
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        listens = accepts_connections(LOOPBACK, self._port)
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                while not await listens():
                    if self._process.returncode is not None:
                        raise Unmet(f"{self.name} has ended:\n{self._log_file.read_text()[-2_000:]}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise Unmet(f"{self.name} did not listen within {READY_SECONDS_MAX:.0f} s") from None

    async def kill(self) -> None:
        """Kill it with SIGKILL, and return when it is gone."""
        if self._process is not None:
            self._stage.history.fault(self.name, "killed")
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _environment(self) -> dict[str, str]:
        stack = self._stage.stack
        return {
            **clean_environment(),
            **stack.settings,
            "BATON_DATABASE_URL": stack.database_url,
            "BATON_REDIS_URL": stack.redis_url,
            "BATON_CONTROL_ADDRESS": self.address,
        }


@asynccontextmanager
async def spare_api(stage: Stage, name: str = "spare-api") -> AsyncIterator[SpareApi]:
    """Run one until the block ends."""
    api = SpareApi(stage, name)
    try:
        await api.start()
        yield api
    finally:
        await api.kill()
