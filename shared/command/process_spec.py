"""What it takes to start, watch and stop one process, as a value."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from shared.command.launcher import Identity, launched

Ready = Callable[[], Awaitable[bool]]
"""Asks once whether a process does its work; never raises, and answers within a second or two."""


async def at_once() -> bool:
    """Of a process that shows no more than being alive."""
    return True


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process.

    Attributes:
        name: Unique within a supervisor; also the name of its log file.
        address: Where it serves, host:port; None if it serves nobody.
        environment: Variables beside those of the supervisor; they win, and None takes one away.
        stop_signal: Asks it to stop; also sent when the supervisor dies.
        grace_seconds: How long it may take to stop before it is killed with its whole process group.
        ready: Asked until it says yes.
        ready_seconds: How long that may take at the first start.
        inherited: Open descriptors that it gets under the same numbers.
    """

    name: str
    argv: tuple[str, ...]
    address: str | None = None
    environment: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    stop_signal: signal.Signals = signal.SIGTERM
    grace_seconds: float = 10.0
    ready: Ready = at_once
    ready_seconds: float = 30.0
    identity: Identity = Identity.SAME
    inherited: tuple[int, ...] = ()

    def command(self) -> list[str]:
        """The command line that starts it below this very process, and ends it if this process dies."""
        return launched(self.argv, orphan_signal=self.stop_signal, identity=self.identity)

    def full_environment(self) -> dict[str, str]:
        merged = {**os.environ, **self.environment}
        return {name: value for name, value in merged.items() if value is not None}


def accepts_connections(host: str, port: int) -> Ready:
    """Ready once a TCP connection is accepted."""

    async def ask() -> bool:
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), timeout=1.0)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    return ask


def made(file: Path) -> Ready:
    """Ready once a file is there that the process makes."""

    async def ask() -> bool:
        return file.exists()  # noqa: ASYNC240 - a moment

    return ask
