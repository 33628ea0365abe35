"""What the harness asks of an engine that it measures."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from bench.database import Database


class Way(StrEnum):
    """How jobs are created: one call each, concurrent calls put together by the client, or lists."""

    UNARY = "unary"
    GATHERED = "gathered"
    BULK = "bulk"


@dataclass(frozen=True, slots=True)
class Done:
    """What the engine's database says of the jobs created since a point in time, by its own clock."""

    jobs: int
    first_claim: datetime | None
    last_success: datetime | None


class Stack(Protocol):
    """An engine that runs, with a database of its own and no executor at first."""

    directory: Path
    database: Database

    def parts(self) -> Mapping[str, int]:
        """Its processes by name; an executor's children belong to it."""

    def load_command(self, way: str) -> tuple[str, ...]:
        """The command line of a load process, up to how much it shall create."""

    async def start_executor(self) -> None:
        """Start one executor process; it may take its first job later."""

    async def stop_executor(self) -> None:
        """Stop it and wait for its end."""

    async def busy(self) -> bool:
        """Whether any job waits or runs; cheap."""

    async def done(self, since: datetime) -> Done:
        """Count the jobs created since then that have succeeded."""


class Engine(Protocol):
    """An engine that can be measured.

    Attributes:
        ways: How jobs can be created in it; the first is how jobs are created one by one.
        callers: How many callers create jobs at once.
    """

    name: str
    ways: tuple[Way, ...]
    callers: int

    def running(self, directory: Path) -> AbstractAsyncContextManager[Stack]:
        """Start it in an empty directory, with the servers it needs; stop it all at the end."""
