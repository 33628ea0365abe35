"""The migrations make exactly the declared tables, and migrators don't disturb each other."""

from __future__ import annotations

import asyncio

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.engine import Connection as SyncConnection

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
