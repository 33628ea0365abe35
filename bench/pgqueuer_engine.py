"""pgqueuer, the peer: the same embedded Postgres, and a worker in an environment of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from bench.child import Child
from bench.database import Database, prepare_cluster
from bench.engine import Done, Stack, Way
from shared.command import data_directory, embedded_postgres
from shared.command.supervisor import Supervisor

_BUSY = "select exists (select from pgqueuer)"
_DONE = """
select count(*) filter (where status = 'successful'), min(created) filter (where status = 'picked'),
       max(created) filter (where status = 'successful')
from pgqueuer_log where created >= $1
"""


class PgqueuerEngine:
    """The peer, run by the interpreter of its own environment."""

    name = "pgqueuer"
    ways: tuple[Way, ...] = (Way.UNARY, Way.BULK)
    callers = 32  # its pool has 16 connections; more callers only wait longer for one

    def __init__(self, python: Path) -> None:
        self._python = str(python.absolute())

    @asynccontextmanager
    async def running(self, directory: Path) -> AsyncIterator[Stack]:
        await asyncio.to_thread(prepare_cluster, directory)
        with data_directory.hold(directory) as held:
            server = embedded_postgres.prepare(held)
            async with Supervisor(directory) as supervisor:
                await supervisor.start(server.process)
                postgres = supervisor.lives[0].process_id
                assert postgres is not None
                stack = _Stack(directory, self._python, server.url, postgres)
                await stack.install()
                stack.database = await Database.open(server.url)
                try:
                    yield stack
                finally:
                    await stack.stop_executor()
                    await stack.database.close()


class _Stack:
    database: Database

    def __init__(self, directory: Path, python: str, url: str, postgres: int) -> None:
        self.directory = directory
        self._python, self._url, self._postgres = python, url, postgres
        self._worker: Child | None = None

    async def install(self) -> None:
        async with Child.running(self._worker_command("install"), self._log, os.environ) as child:
            await child.until_ended()

    def parts(self) -> Mapping[str, int]:
        return {"postgres": self._postgres} | ({"executor": self._worker.process_id} if self._worker else {})

    def load_command(self, way: str) -> tuple[str, ...]:
        return (self._python, "-m", "bench.pgqueuer_load", way, "--target", self._url)

    async def start_executor(self) -> None:
        self._worker = await Child.start(self._worker_command("work"), self._log, os.environ)

    async def stop_executor(self) -> None:
        if self._worker is not None:
            await self._worker.stop()
            self._worker = None

    async def busy(self) -> bool:
        return bool(await self.database.value(_BUSY))

    async def done(self, since: datetime) -> Done:
        jobs, first, last = await self.database.row(_DONE, since)
        assert isinstance(jobs, int)
        assert first is None or isinstance(first, datetime)
        assert last is None or isinstance(last, datetime)
        return Done(jobs, first, last)

    @property
    def _log(self) -> Path:
        return self.directory / "worker.log"

    def _worker_command(self, verb: str) -> tuple[str, ...]:
        return (self._python, "-m", "bench.pgqueuer_worker", verb, self._url)
