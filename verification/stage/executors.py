"""Executors as processes, to be killed, paused and stopped while they work."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from verification.evidence.history import History
from verification.stage import freezing
from verification.stage.processes import EXECUTOR, started
from verification.unmet import Unmet

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 40.0
RESTART_SECONDS = 0.5
"""Between a death and the next life, where an executor is kept alive."""
_POLL_SECONDS = 0.05


class Executor:
    """One `baton executor`, over all its lives.

    Attributes:
        name: As it tells the service, and of its log.
        lives: How often it was started.
    """

    def __init__(
        self,
        name: str,
        history: History,
        *,
        environment: Mapping[str, str],
        directory: Path,
        kept_alive: bool,
    ) -> None:
        self.name = name
        self.lives = 0
        self._history = history
        self._environment = environment
        self._ready_file = directory / f"{name}.ready"
        self._log_file = directory / f"{name}.log"
        self._kept_alive = kept_alive
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stopped: Sequence[int] = ()

    @property
    def process_id(self) -> int:
        """Of its keeper."""
        if self._process is None:
            raise Unmet(f"executor {self.name} does not run")
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it, and wait until it has a session."""
        await self._spawn()
        if self._kept_alive:
            self._keeping = asyncio.create_task(self._keep_alive(), name=f"keeping {self.name} alive")
        await self.until_ready()

    async def until_ready(self) -> None:
        """Wait until it has a session."""
        async with asyncio.timeout(READY_SECONDS_MAX):
            while not self._ready_file.exists():
                if not self.alive and not self._kept_alive:
                    raise Unmet(f"executor {self.name} has ended:\n{self.log[-2_000:]}")
                await asyncio.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """Kill its keeper; its handlers must end by themselves."""
        self._history.fault(self.name, "killed")
        os.kill(self.process_id, signal.SIGKILL)

    def kill_handlers(self) -> int:
        """Kill its handler processes, and return how many there were."""
        self._history.fault(self.name, "handlers killed")
        children = self.handler_process_ids()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        return len(children)

    def handler_process_ids(self) -> Sequence[int]:
        """The processes below its keeper."""
        return freezing.children(self.process_id)

    def pause(self) -> None:
        """Stop it with all its handlers, as a machine that hangs."""
        self._history.fault(self.name, "paused")
        self._stopped = freezing.freeze(self.process_id)

    def resume_handlers(self) -> None:
        """Let all go on but the keeper, so that its handlers' words are there when it wakes up."""
        freezing.thaw(self._stopped[1:])

    def resume(self) -> None:
        self._history.fault(self.name, "resumed")
        freezing.thaw(self._stopped)
        self._stopped = ()

    async def stop(self) -> int:
        """Tell it to stop, wait until it has, and return its exit code; it is not started again.

        Raises:
            Unmet: It does not end in time.
        """
        self._history.fault(self.name, "stopped")
        self._kept_alive = False
        process = self._process
        if process is None:
            return 0
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                return await process.wait()
        except TimeoutError:
            raise Unmet(f"executor {self.name} did not stop within {STOP_SECONDS_MAX:.0f} s") from None

    async def close(self) -> None:
        """End it, however."""
        self._kept_alive = False
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
        if self._process is not None:
            freezing.thaw(self._stopped)
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def _spawn(self) -> None:
        self._ready_file.unlink(missing_ok=True)
        self.lives += 1
        environment = {**self._environment, "BATON_READY_FILE": str(self._ready_file)}
        self._process = await started(EXECUTOR, environment=environment, log_file=self._log_file)

    async def _keep_alive(self) -> None:
        while self._kept_alive:
            assert self._process is not None
            await self._process.wait()
            await asyncio.sleep(RESTART_SECONDS)
            if self._kept_alive:
                await self._spawn()


class Executors:
    """Starts executors for one stack, and ends those that are left."""

    def __init__(
        self, address: str, history: History, *, directory: Path, environment: Mapping[str, str]
    ) -> None:
        self._address = address
        self._history = history
        self._directory = directory
        self._environment = environment
        self._started: list[Executor] = []

    async def start(self, name: str, *, kept_alive: bool = False, **settings: object) -> Executor:
        """Start an executor for synthetic jobs, and return it once it has a session.

        Args:
            name: Unique within a part; another `executor_name` among the settings may be shared.
            kept_alive: Whether it is started again when it dies.
            settings: `BATON_*` settings by their lowercase names, for example `handler_processes=2`.
        """
        executor = self._made(name, kept_alive, settings)
        await executor.start()
        return executor

    async def start_all(
        self, *names: str, kept_alive: bool = False, **settings: object
    ) -> Sequence[Executor]:
        """Start several at once; the same settings for all."""
        executors = [self._made(name, kept_alive, settings) for name in names]
        await asyncio.gather(*(each.start() for each in executors))
        return executors

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._started))

    def _made(self, name: str, kept_alive: bool, settings: Mapping[str, object]) -> Executor:
        told = {f"BATON_{key.upper()}": str(value) for key, value in settings.items()}
        environment = {
            **self._environment,
            "BATON_EXECUTION_ADDRESS": self._address,
            "BATON_EXECUTOR_NAME": name,
            **told,
        }
        executor = Executor(
            name, self._history, environment=environment, directory=self._directory, kept_alive=kept_alive
        )
        self._started.append(executor)
        return executor


@asynccontextmanager
async def executors_of(
    address: str, history: History, *, directory: Path, environment: Mapping[str, str]
) -> AsyncIterator[Executors]:
    """Executors for a service, all of which end with the block."""
    executors = Executors(address, history, directory=directory, environment=environment)
    try:
        yield executors
    finally:
        await executors.close()
