"""What an engine's Postgres did: statements, transactions, pages and write-ahead log, by its own counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from shared.command import data_directory, embedded_postgres

_TOTALS = """
select /* bench */ coalesce(sum(s.calls), 0)::float8 as statements,
       coalesce(sum(s.shared_blks_hit + s.shared_blks_read), 0)::float8 as buffers,
       (select xact_commit::float8 from pg_stat_database where datname = current_database()) as transactions,
       (pg_current_wal_lsn() - '0/0')::float8 as wal_bytes
from pg_stat_statements s
where s.dbid = (select oid from pg_database where datname = current_database())
  and s.query not like '%/* bench */%'
"""
_DEAREST = """
select /* bench */ calls, rows, round(total_exec_time::numeric, 1)::float8 as milliseconds,
       shared_blks_hit + shared_blks_read as buffers, wal_bytes::float8 as wal_bytes,
       regexp_replace(query, '\\s+', ' ', 'g') as statement
from pg_stat_statements
where query not like '%/* bench */%' and calls > 0
order by total_exec_time desc limit 25
"""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters since the server's start; the harness's own statements are not in them."""

    statements: float
    buffers: float
    transactions: float
    wal_bytes: float


def prepare_cluster(directory: Path) -> None:
    """Make the database cluster as the engine would, and have its statements counted."""
    with data_directory.hold(directory) as held:
        embedded_postgres.prepare(held)
        with (directory / "postgres" / "postgresql.auto.conf").open("a") as settings:
            settings.write(
                "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.track_utility = on\n"
            )


class Database:
    """The harness's own connection to an engine's database."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, url: str) -> Database:
        connection = await asyncpg.connect(url)
        await connection.execute("create /* bench */ extension if not exists pg_stat_statements")
        return cls(connection)

    async def close(self) -> None:
        await self._connection.close()

    async def value(self, query: str, *arguments: object) -> object:
        return await self._connection.fetchval(_marked(query), *arguments)

    async def row(self, query: str, *arguments: object) -> Sequence[object]:
        return tuple(await self._connection.fetchrow(_marked(query), *arguments))

    async def tidy(self) -> None:
        """Bring the planner's statistics up to date, which autovacuum would have done by then."""
        await self._connection.execute("vacuum /* bench */ analyze")

    async def totals(self) -> Totals:
        return Totals(**dict(await self._connection.fetchrow(_TOTALS)))

    async def forget_statements(self) -> None:
        await self._connection.execute("select /* bench */ pg_stat_statements_reset()")

    async def dearest_statements(self) -> Sequence[Mapping[str, object]]:
        """The statements that took most of the server's time since they were last forgotten."""
        return [dict(each) for each in await self._connection.fetch(_DEAREST)]

    async def version(self) -> str:
        return str(await self.value("select current_setting('server_version')"))


def _marked(query: str) -> str:
    return query.replace("select ", "select /* bench */ ", 1)
