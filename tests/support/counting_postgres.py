"""A Postgres that counts the statements of each of its users."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from shared.command import data_directory, embedded_postgres
from tests.support.servers import PostgresServer, running

_COUNTED = "counted"
_PASSWORD = "of these tests"
_CALLS = (
    "select coalesce(sum(calls), 0)::bigint from pg_stat_statements s join pg_roles r on r.oid = s.userid"
)


@dataclass(frozen=True, slots=True)
class CountingDatabase:
    """A migrated database, with an address for the process whose statements count, and one for all others."""

    url: str
    counted_url: str

    async def statements(self) -> int:
        """How many statements the counted user has sent; begins and commits are statements too."""
        connection = await asyncpg.connect(self.url, ssl=False)
        try:
            return int(await connection.fetchval(f"{_CALLS} where r.rolname = '{_COUNTED}'"))
        finally:
            await connection.close()


@contextmanager
def counting_postgres(directory: Path) -> Iterator[PostgresServer]:
    with data_directory.hold(directory) as held:
        server = embedded_postgres.prepare(held, fast=True)
        counting = (*server.process.argv, "-c", "shared_preload_libraries=pg_stat_statements")
        with running(replace(server.process, argv=counting), held) as process:
            yield PostgresServer(server.url, process.pid)


@asynccontextmanager
async def counting_database(server: PostgresServer) -> AsyncIterator[CountingDatabase]:
    async with server.migrated_database() as url:
        connection = await asyncpg.connect(url, ssl=False)
        try:
            await connection.execute(f"drop role if exists {_COUNTED}")
            await connection.execute(f"create role {_COUNTED} superuser login password '{_PASSWORD}'")
            await connection.execute("create extension pg_stat_statements")
        finally:
            await connection.close()
        yield CountingDatabase(url, _as_user(url))


def _as_user(url: str) -> str:
    parts = urlsplit(url)
    place = f"{_COUNTED}:{_PASSWORD.replace(' ', '%20')}@{parts.hostname}:{parts.port}"
    return urlunsplit(parts._replace(netloc=place))
