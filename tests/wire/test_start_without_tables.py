"""What the services say and do when the database is not what they need."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from shared.storage import migrate
from tests.support.servers import with_database
from verification.peers.cuttable import cuttable

SERVICES = pytest.mark.parametrize("service", ["job_api", "job_worker"])
ANY_PORT = {"BATON_CONTROL_ADDRESS": "127.0.0.1:0", "BATON_EXECUTION_ADDRESS": "127.0.0.1:0"}


@asynccontextmanager
async def process(service: str, environment: Mapping[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """A service of its own, which is gone at the end."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", service),
        env={**inherited, **ANY_PORT, **environment},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


async def last_words(service: str, database_url: str, redis_url: str) -> str:
    """Start a service that can't, and return the one line that it ends with."""
    environment = {"BATON_DATABASE_URL": database_url, "BATON_REDIS_URL": redis_url}
    async with process(service, environment) as started, asyncio.timeout(30):
        _, errors = await started.communicate()
    assert started.returncode == 2
    assert b"Traceback" not in errors
    return errors.decode().splitlines()[-1]


async def until_logged(started: asyncio.subprocess.Process, event: str) -> None:
    assert started.stderr is not None
    async with asyncio.timeout(30):
        while line := await started.stderr.readline():
            if event.encode() in line:
                return
    raise AssertionError(f"the process ended without {event}")


@SERVICES
async def test_a_database_without_tables_is_one_line_that_says_what_to_run(
    service: str, empty_database_url: str, redis_url: str
) -> None:
    told = await last_words(service, empty_database_url, redis_url)
    assert told == "baton: the database has no tables yet: run `baton migrate`"


@SERVICES
async def test_a_database_older_than_the_code_is_one_line_that_says_what_to_run(
    service: str, empty_database_url: str, redis_url: str
) -> None:
    await migrate.upgrade(empty_database_url, revision="0001")
    told = await last_words(service, empty_database_url, redis_url)
    assert told.startswith("baton: the database is at revision 0001, this version needs ")
    assert told.endswith(": run `baton migrate`")


async def test_a_database_that_is_not_there_is_one_line(empty_database_url: str, redis_url: str) -> None:
    told = await last_words("job_api", with_database(empty_database_url, "no_such"), redis_url)
    assert told == 'baton: the database refuses BATON_DATABASE_URL: database "no_such" does not exist'


@SERVICES
async def test_a_database_that_is_away_at_the_start_is_waited_for(
    service: str, database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with cuttable(database_url) as database:
        await database.cut()
        environment = {
            "BATON_DATABASE_URL": database.url,
            "BATON_REDIS_URL": redis_url,
            "BATON_REDIS_PREFIX": redis_prefix,
        }
        async with process(service, environment) as started:
            await until_logged(started, "database.awaited")
            await database.mend()
            await until_logged(started, "server.started")
