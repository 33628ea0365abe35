"""Looks, when a service starts, whether the database has the tables that the code was written for.

A database that is away is waited for: services and database are started together, and a process that gave up
would only be started again by its supervisor. One that answers and lacks tables is a person's to mend.
"""

from __future__ import annotations

import random
from datetime import timedelta

import sqlalchemy as sa
import structlog
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.domain.errors import PlatformUnavailable
from shared.runtime.clock import Clock, SystemClock
from shared.runtime.faults import StartupFault
from shared.runtime.loops import Backoff
from shared.storage.database import translated
from shared.storage.migrate import configuration

log = structlog.get_logger(__name__)

_AWAY = Backoff(base=timedelta(seconds=0.2), cap=timedelta(seconds=2))
"""Callers wait for the service, so a database that comes is noticed this soon."""
_REFUSALS = ("28", "3D")
"""SQLSTATE classes of a database that does not let us in: unknown user or password, no such database."""


async def until_usable(engine: AsyncEngine, *, clock: Clock | None = None) -> None:
    """Return once the database answers and has all tables; wait while it is away, for as long as it takes.

    Raises:
        StartupFault: It was not migrated, or not far enough, or it does not let us in.
    """
    clock = clock or SystemClock()
    failures = 0
    while not await _has_answered(engine):
        failures += 1
        wait = _AWAY.delay(failures, uniform=random.random())
        log.warning("database.awaited", failures=failures, wait_s=wait.total_seconds())
        await clock.sleep(wait)
    if failures:
        log.info("database.found", failures=failures)


async def _has_answered(engine: AsyncEngine) -> bool:
    try:
        revision = await _revision(engine)
    except PlatformUnavailable:
        return False
    except DBAPIError as error:
        if str(getattr(error.orig, "sqlstate", ""))[:2] in _REFUSALS:
            raise StartupFault(f"the database refuses BATON_DATABASE_URL: {error.orig}") from None
        raise
    if revision is None:
        raise StartupFault("the database has no tables yet: run `baton migrate`")
    history = ScriptDirectory.from_config(configuration())
    head = history.get_current_head()
    # A revision that this code does not know is a newer one's: replicas are replaced one by one.
    if revision != head and revision in {each.revision for each in history.walk_revisions()}:
        raise StartupFault(
            f"the database is at revision {revision}, this version needs {head}: run `baton migrate`"
        )
    return True


async def _revision(engine: AsyncEngine) -> str | None:
    """The step of its history that the database is at; None if nobody ever migrated it."""
    with translated():
        async with engine.connect() as connection:
            if await connection.scalar(sa.text("select to_regclass('alembic_version')")) is None:
                return None
            revision: str | None = await connection.scalar(sa.text("select version_num from alembic_version"))
            return revision
