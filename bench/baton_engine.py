"""Baton as shipped: `baton dev` with its embedded servers, and an executor that comes and goes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from bench.child import Child
from bench.database import Database, prepare_cluster
from bench.engine import Done, Stack, Way
from shared.command.embedded_postgres import DATABASE, SUPERUSER

_START_SECONDS_MAX = 60.0
_COMMAND = (sys.executable, "-m", "shared.command.main")

_BUSY = """
select exists (select from outbox where event_type = 'job.dispatch' and state = 'pending')
    or exists (select from outbox where event_type = 'job.dispatch' and state = 'delivered')
    or exists (select from leases)
"""
_DONE = """
select count(*), min(start_time), max(finish_time) from jobs where create_time >= $1 and state = 'SUCCEEDED'
"""


class BatonEngine:
    """The project's own engine."""

    name = "baton"
    ways: tuple[Way, ...] = (Way.UNARY, Way.GATHERED, Way.BULK)
    callers = 64

    @asynccontextmanager
    async def running(self, directory: Path) -> AsyncIterator[Stack]:
        await asyncio.to_thread(prepare_cluster, directory)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}
        dev = (*_COMMAND, "dev", "--data-dir", str(directory), "--executors", "0")
        async with Child.running(
            (*dev, "--control-port", "0", "--execution-port", "0"), directory / "dev.log", environment
        ) as child:
            async with asyncio.timeout(_START_SECONDS_MAX):
                await child.until_printed("ready")
            lives = json.loads((directory / "stack.json").read_text())["processes"]
            stack = _Stack(directory, {each["name"]: each for each in lives}, environment)
            stack.database = await Database.open(stack.database_url)
            try:
                yield stack
            finally:
                await stack.stop_executor()
                await stack.database.close()


class _Stack:
    database: Database

    def __init__(
        self, directory: Path, lives: Mapping[str, Mapping[str, object]], environment: Mapping[str, str]
    ) -> None:
        self.directory = directory
        self._lives = lives
        self._environment = {**environment, "BATON_EXECUTION_ADDRESS": self._address("worker")}
        self._executor: Child | None = None

    @property
    def database_url(self) -> str:
        password = (self.directory / "postgres.password").read_text().strip()
        return f"postgresql://{SUPERUSER}:{password}@{self._address('postgres')}/{DATABASE}"

    def parts(self) -> Mapping[str, int]:
        parts = {name: int(str(life["pid"])) for name, life in self._lives.items()}
        return parts | ({"executor": self._executor.process_id} if self._executor else {})

    def load_command(self, way: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "bench.baton_load", way, "--target", self._address("api"))

    async def start_executor(self) -> None:
        log = self.directory / "executor.log"
        self._executor = await Child.start((*_COMMAND, "executor"), log, self._environment)

    async def stop_executor(self) -> None:
        if self._executor is not None:
            await self._executor.stop()
            self._executor = None

    async def busy(self) -> bool:
        return bool(await self.database.value(_BUSY))

    async def done(self, since: datetime) -> Done:
        jobs, first, last = await self.database.row(_DONE, since)
        assert isinstance(jobs, int)
        assert first is None or isinstance(first, datetime)
        assert last is None or isinstance(last, datetime)
        return Done(jobs, first, last)

    def _address(self, name: str) -> str:
        return str(self._lives[name]["address"])
