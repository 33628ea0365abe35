"""One more `baton api` or `baton worker` on the stack's servers, which nobody but the part starts again.

The stack's own ones are kept alive with ever longer waits between their lives; these can be killed a hundred
times in a minute or two.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from shared.command.data_directory import LOOPBACK, free_port
from shared.command.process_spec import accepts_connections
from verification.stage.processes import BATON, started
from verification.stage.stack import clean_environment
from verification.stage.stage import Stage
from verification.unmet import Unmet

READY_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.05
_ADDRESS_OF = {"api": "BATON_CONTROL_ADDRESS", "worker": "BATON_EXECUTION_ADDRESS"}


class SpareService:
    """It keeps its address over all its lives.

    Attributes:
        address: Where it listens.
    """

    def __init__(self, stage: Stage, command: str, name: str, redis_url: str = "") -> None:
        self.name = name
        self._command = command
        self._port = free_port()
        self.address = f"{LOOPBACK}:{self._port}"
        self._stage = stage
        self._redis_url = redis_url or stage.stack.redis_url
        self._log_file = stage.directory / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process_id(self) -> int:
        if self._process is None:
            raise Unmet(f"{self.name} does not run")
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait until it takes connections.

        Raises:
            Unmet: It does not, or has ended.
        """
        self._process = await started(
            [*BATON, self._command], environment=self._environment(), log_file=self._log_file
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
            "BATON_REDIS_URL": self._redis_url,
            _ADDRESS_OF[self._command]: self.address,
        }


def spare_api(
    stage: Stage, name: str = "spare-api", *, redis_url: str = ""
) -> AbstractAsyncContextManager[SpareService]:
    """Run an api until the block ends.

    Args:
        redis_url: Its way to the stack's Redis, if it is to go another one than the others.
    """
    return _running(SpareService(stage, "api", name, redis_url))


def spare_worker(stage: Stage) -> AbstractAsyncContextManager[SpareService]:
    """Run a worker until the block ends."""
    return _running(SpareService(stage, "worker", "spare-worker"))


@asynccontextmanager
async def _running(service: SpareService) -> AsyncIterator[SpareService]:
    try:
        await service.start()
        yield service
    finally:
        await service.kill()
