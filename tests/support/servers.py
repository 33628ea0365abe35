"""Real servers for tests: one Postgres and one Valkey per test process, and a fresh database per test."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from shared.command import data_directory, embedded_postgres, embedded_valkey
from shared.command.data_directory import DataDirectory
from shared.command.process_spec import ProcessSpec
from shared.runtime.ids import new_id, new_secret

_READY_POLL_SECONDS = 0.02
_TEMPLATE = "template_of_tests"
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 2 << 30
"""What a run's databases and their write-ahead log take at most; containers often have less."""


class ValkeyServer:
    """A running Valkey, shared by all tests of a process: each test has a key prefix of its own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def fresh_prefix(self) -> str:
        return f"baton:t{new_secret()}:"


class PostgresServer:
    """A running Postgres. `url` is its empty database, which nobody migrates."""

    def __init__(self, url: str, process_id: int) -> None:
        self.url = url
        self.process_id = process_id
        self._migrated = False

    @asynccontextmanager
    async def empty_database(self) -> AsyncIterator[str]:
        """Yield the URL of a database without tables, which is dropped afterwards."""
        async with self._database("template1") as url:
            yield url

    @asynccontextmanager
    async def migrated_database(self) -> AsyncIterator[str]:
        """Yield the URL of a database with all tables, which is dropped afterwards; 0.1 s after the first."""
        await self._migrate_template()
        async with self._database(_TEMPLATE) as url:
            yield url

    async def _migrate_template(self) -> None:
        if self._migrated:
            return
        from shared.storage import migrate  # noqa: PLC0415 - tests without tables need no migrations

        await self._execute(f"DROP DATABASE IF EXISTS {_TEMPLATE}", f"CREATE DATABASE {_TEMPLATE}")
        await migrate.upgrade(with_database(self.url, _TEMPLATE))
        self._migrated = True

    @asynccontextmanager
    async def _database(self, template: str) -> AsyncIterator[str]:
        name = f"t{new_id().hex}"
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield with_database(self.url, name)
        finally:
            await self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def _execute(self, *statements: str) -> None:
        connection = await asyncpg.connect(self.url, ssl=False)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()


def with_database(url: str, name: str) -> str:
    """The same server's URL for another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@contextmanager
def quick_directory(*, otherwise: Path) -> Iterator[Path]:
    """Yield a new directory in memory, if there is room, as a database is made there in a tenth of the time.

    It is removed at the end. A machine without such room has it below the other path.
    """
    in_memory = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES_MIN
    with tempfile.TemporaryDirectory(prefix="baton-tests-", dir=_MEMORY if in_memory else otherwise) as name:
        yield Path(name)


@contextmanager
def postgres_running(directory: Path) -> Iterator[PostgresServer]:
    """Run a Postgres that forgets to be durable, which no test of a killed process notices."""
    with data_directory.hold(directory) as held:
        server = embedded_postgres.prepare(held, fast=True)
        with running(server.process, held) as process:
            yield PostgresServer(server.url, process.pid)


@contextmanager
def valkey_running(directory: Path) -> Iterator[ValkeyServer]:
    with data_directory.hold(directory) as held:
        server = embedded_valkey.prepare(held, fast=True)
        with running(server.process, held):
            yield ValkeyServer(server.url)


@contextmanager
def running(spec: ProcessSpec, directory: DataDirectory) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; its output goes to a log file in the data directory."""
    log_path = directory.path / f"{spec.name}.log"
    with log_path.open("ab") as output:
        process = subprocess.Popen(
            spec.command(),
            env=spec.full_environment(),
            stdout=output,
            stderr=output,
            pass_fds=spec.inherited,
            start_new_session=True,
        )
    try:
        apart(_until_ready(spec, process, log_path))
        yield process
    finally:
        stop(process, spec)


async def _until_ready(spec: ProcessSpec, process: subprocess.Popen[bytes], log_path: Path) -> None:
    deadline = time.monotonic() + spec.ready_seconds
    while not await spec.ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{spec.name} does not start: {_end_of(log_path)}")
        await asyncio.sleep(_READY_POLL_SECONDS)


def _end_of(log_path: Path) -> str:
    return log_path.read_text()[-2_000:]


def stop(process: subprocess.Popen[bytes], spec: ProcessSpec) -> None:
    if process.poll() is None:
        process.send_signal(spec.stop_signal)
    try:
        process.wait(timeout=spec.grace_seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def apart(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end in an event loop of its own, whatever loop this thread has."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, work).result()
