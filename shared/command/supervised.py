"""One process under supervision: started again whenever it dies, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

import structlog

from shared.command.process_spec import ProcessSpec
from shared.runtime.clock import Clock
from shared.runtime.faults import StartupFault
from shared.runtime.processes import EXIT_FAULT

log = structlog.get_logger(__name__)

_RESTART_WAIT_MIN = timedelta(seconds=0.2)
_RESTART_WAIT_MAX = timedelta(seconds=5)
_STEADY_AFTER = timedelta(seconds=10)
"""A process that lived so long has started well: the next wait is the shortest again."""

_READY_POLL = timedelta(seconds=0.05)

_FAULT = "baton: "
"""How a line begins that says why a process can't start."""

_LOG_BYTES_MAX = 16 << 20
"""A log that is longer when its process starts is set aside, and replaces the one set aside before."""


@dataclass(frozen=True, slots=True)
class Life:
    """A process as it is at present.

    Attributes:
        process_id: None between two lives.
        restarts: How often it died and was started again.
    """

    name: str
    process_id: int | None
    address: str | None
    restarts: int


class Supervised:
    """A process that is kept alive. `changed` is called at every start and end."""

    def __init__(
        self, spec: ProcessSpec, *, log_path: Path, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self._spec = spec
        self._log_path = log_path
        self._clock = clock
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._exit_code: int | None = None
        self._log_begin = 0
        self._restarts = 0
        self._stopping = False
        self._keeping = asyncio.create_task(self._keep_alive(), name=f"supervise {spec.name}")

    @property
    def life(self) -> Life:
        process_id = self._process.pid if self._process else None
        return Life(self._spec.name, process_id, self._spec.address, self._restarts)

    async def until_ready(self) -> None:
        """Wait for the first start.

        Raises:
            StartupFault: It took too long, or the process says that starting it again is no use.
        """
        deadline = self._clock.monotonic() + self._spec.ready_seconds
        while not (await self._spec.ready() and self._process is not None):
            if self._keeping.done():
                self._keeping.result()
            if self._exit_code == EXIT_FAULT:
                words = last_words(self._log_path, self._log_begin)
                raise StartupFault([f"{self._spec.name}: {each}" for each in words])
            if self._clock.monotonic() > deadline:
                raise StartupFault(
                    f"{self._spec.name} is not ready after {self._spec.ready_seconds:.0f} s; "
                    f"the last line of {self._log_path}: "
                    f"{last_words(self._log_path, self._log_begin)[-1]}"
                )
            await self._clock.sleep(_READY_POLL)

    async def stop(self) -> None:
        """Ask it to stop, kill it with its process group if it does not, and return when it is gone."""
        self._stopping = True
        if self._process is None:
            self._keeping.cancel()
        else:
            self._signal(self._spec.stop_signal)
        _, still_there = await asyncio.wait({self._keeping}, timeout=self._spec.grace_seconds)
        if still_there:
            log.warning("process.killed", process=self._spec.name, grace_s=self._spec.grace_seconds)
            self._kill_group()
        with suppress(asyncio.CancelledError):
            await self._keeping

    async def _keep_alive(self) -> None:
        wait: timedelta | None = None
        while not self._stopping:
            started = self._clock.monotonic()
            await self._live_once()
            if self._stopping:
                return
            wait = restart_wait(wait, lived=timedelta(seconds=self._clock.monotonic() - started))
            log.warning(
                "process.died", process=self._spec.name, exit=self._exit_code, wait_s=wait.total_seconds()
            )
            await self._clock.sleep(wait)
            self._restarts += 1

    async def _live_once(self) -> None:
        with _log_file(self._log_path) as output:
            self._log_begin = output.tell()
            process = await asyncio.create_subprocess_exec(
                *self._spec.command(),
                env=self._spec.full_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=self._spec.inherited,
                start_new_session=True,  # Ctrl-C in the terminal is the supervisor's to hand on, in order
            )
        self._process = process
        self._changed()
        self._exit_code = await process.wait()
        self._kill_group()  # what it had started and left behind
        self._process = None
        self._changed()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            if self._process is not None:
                self._process.send_signal(number)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self._process is not None:
                os.killpg(self._process.pid, signal.SIGKILL)


def restart_wait(last: timedelta | None, *, lived: timedelta) -> timedelta:
    """Return the wait before the next start, which doubles until a life was long enough.

    Args:
        last: The wait before the life that has ended; None for the first.
        lived: How long that life lasted.
    """
    if last is None or lived >= _STEADY_AFTER:
        return _RESTART_WAIT_MIN
    return min(last * 2, _RESTART_WAIT_MAX)


def last_words(log_path: Path, begin: int = 0) -> list[str]:
    """Return the faults that a process told at its end, or else its last line; never empty.

    Args:
        begin: Where in the log its life begins, in bytes.
    """
    text = log_path.read_bytes()[begin:].decode(errors="replace") if log_path.exists() else ""
    lines = text.strip().splitlines()
    faults = list(takewhile(lambda line: line.startswith(_FAULT), reversed(lines)))[::-1] or lines[-1:]
    return [each.removeprefix(_FAULT) for each in faults] or ["it said nothing"]


def _log_file(path: Path) -> BinaryIO:
    if path.exists() and path.stat().st_size > _LOG_BYTES_MAX:
        path.replace(path.with_name(f"{path.name}.1"))
    return path.open("ab")
