"""Brings a database to the newest step of its history."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Connection as SyncConnection
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.errors import PlatformUnavailable
from shared.storage.database import open_engine, translated

_LOCK_KEY = 7410_7420
"""Any number; it stands for "someone migrates this database"."""
_LOCK_WAIT_SECONDS = 60.0
"""How long to wait for another migrator before giving up."""
_LOCK_POLL_SECONDS = 0.2
_STEP_SECONDS = 3600.0
"""The longest statement of a step: an index of a large table takes its time."""


async def upgrade(database_url: str, *, revision: str = "head") -> str:
    """Bring the database to a revision and return its name; safe when several processes do it at once.

    The lock is polled: a blocking one would deadlock with an index that is built concurrently.

    Raises:
        PlatformUnavailable: The database did not answer, or another migrator did not end within a minute.
    """
    async with open_engine(database_url, pool_size=2, command_seconds=_STEP_SECONDS) as engine:
        with translated():
            async with engine.connect() as guard:
                await _lock(guard)
                async with engine.connect() as connection:
                    await connection.execute(sa.text("set lock_timeout = '5s'"))
                    await connection.commit()
                    return await connection.run_sync(_upgrade, revision)


async def _lock(guard: AsyncConnection) -> None:
    give_up = time.monotonic() + _LOCK_WAIT_SECONDS
    while not await guard.scalar(sa.text("select pg_try_advisory_lock(:key)"), {"key": _LOCK_KEY}):
        await guard.commit()
        if time.monotonic() > give_up:
            raise PlatformUnavailable("database")
        await asyncio.sleep(_LOCK_POLL_SECONDS)
    await guard.commit()


def configuration() -> Config:
    """Say where the steps lie."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def _upgrade(connection: SyncConnection, revision: str) -> str:
    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    connection.commit()
    return str(connection.scalar(sa.text("select version_num from alembic_version")))
