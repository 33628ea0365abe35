"""Starts processes in order, keeps them alive, and stops them in the opposite order.

Nothing outlives it: each process is signalled by the kernel when this one dies, however it dies. What runs
is always to be read in `stack.json`.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import TracebackType

from shared.command.data_directory import write_atomically
from shared.command.process_spec import ProcessSpec
from shared.command.supervised import Life, Supervised
from shared.runtime.clock import SystemClock


class Supervisor:
    """Processes by tier: those of one tier start and stop together, and rest on the tiers before.

    Used as a context, which stops everything at its end.
    """

    def __init__(self, directory: Path) -> None:
        self._logs = directory / "logs"
        self._stack_file = directory / "stack.json"
        self._clock = SystemClock()
        self._tiers: list[list[Supervised]] = []

    async def __aenter__(self) -> Supervisor:
        self._logs.mkdir(mode=0o700, exist_ok=True)
        self._write_stack()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def lives(self) -> list[Life]:
        """Everything that was started, in the order of its start."""
        return [each.life for tier in self._tiers for each in tier]

    async def start(self, *specs: ProcessSpec) -> None:
        """Start a tier, and return when all of it is ready.

        Raises:
            StartupFault: One of them does not get ready. All keep being restarted until `stop`.
        """
        self._tiers.append([])  # first, for what starts is written down at once
        for spec in specs:
            self._tiers[-1].append(
                Supervised(
                    spec,
                    log_path=self._logs / f"{spec.name}.log",
                    clock=self._clock,
                    changed=self._write_stack,
                )
            )
        for each in self._tiers[-1]:
            await each.until_ready()

    async def stop(self) -> None:
        """Stop all tiers, the last one first; a process that is late is killed."""
        for tier in reversed(self._tiers):
            await asyncio.gather(*(each.stop() for each in tier))
        self._tiers.clear()
        self._stack_file.unlink(missing_ok=True)

    def _write_stack(self) -> None:
        processes = [
            {"name": life.name, "pid": life.process_id, "address": life.address, "restarts": life.restarts}
            for life in self.lives
        ]
        stack = {"supervisor": os.getpid(), "processes": processes}
        write_atomically(self._stack_file, json.dumps(stack, indent=2) + "\n")
