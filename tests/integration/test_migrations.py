"""The migrations make exactly the declared tables, and migrators don't disturb each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.engine import Connection as SyncConnection

from shared.runtime.ids import new_id
from shared.storage import migrate, tables
from shared.storage.database import open_engine


def _difference(connection: SyncConnection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, tables.METADATA))


async def test_the_migrations_make_the_declared_tables(database_url: str) -> None:
    async with open_engine(database_url, pool_size=1) as engine, engine.connect() as connection:
        assert await connection.run_sync(_difference) == []


async def test_migrating_again_changes_nothing(database_url: str) -> None:
    assert await migrate.upgrade(database_url) == await migrate.upgrade(database_url)


async def test_migrators_that_race_wait_for_each_other(empty_database_url: str) -> None:
    revisions = await asyncio.gather(*(migrate.upgrade(empty_database_url) for _ in range(4)))
    assert len(set(revisions)) == 1
    async with open_engine(empty_database_url, pool_size=1) as engine, engine.connect() as connection:
        assert await connection.scalar(sa.text("select count(*) from jobs")) == 0


@asynccontextmanager
async def owned(database_url: str) -> AsyncIterator[str]:
    """Give the database to a new role without any right beyond it, and yield its URL for that role."""
    name = f"r{new_id().hex}"
    parts = urlsplit(database_url)
    connection = await asyncpg.connect(database_url, ssl=False)
    try:
        await connection.execute(f"create role {name} login password 'secret' noinherit")
        await connection.execute(f"alter database {parts.path[1:]} owner to {name}")
        yield urlunsplit(parts._replace(netloc=f"{name}:secret@{parts.hostname}:{parts.port}"))
    finally:
        await connection.execute(f"reassign owned by {name} to current_user; drop role {name}")
        await connection.close()


async def test_who_owns_a_database_migrates_it_without_any_other_right(empty_database_url: str) -> None:
    async with owned(empty_database_url) as url:
        assert await migrate.upgrade(url) == await migrate.upgrade(url)


async def test_the_trigrams_may_lie_in_a_schema_of_their_own(empty_database_url: str) -> None:
    connection = await asyncpg.connect(empty_database_url, ssl=False)
    await connection.execute('create schema "Ext"; create extension pg_trgm schema "Ext"')
    await connection.close()
    async with owned(empty_database_url) as url:
        connection = await asyncpg.connect(empty_database_url, ssl=False)
        await connection.execute('grant usage on schema "Ext" to public')
        await connection.close()
        await migrate.upgrade(url)
    async with open_engine(empty_database_url, pool_size=1) as engine, engine.connect() as connection:
        assert await connection.run_sync(_difference) == []
