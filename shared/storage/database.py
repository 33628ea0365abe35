"""The way to Postgres: a pool, one connection of it, and the translation of its driver's errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from shared.domain.errors import IllegalTransition, PlatformUnavailable
from shared.runtime.faults import StartupFault

ILLEGAL_TRANSITION = "BT001"
"""The database's own code for a state change that it refuses (see the first migration)."""

_NOBODYS_FAULT = ("08", "40", "53", "57")
"""SQLSTATE classes that say nothing about the statement: connection, rollback, resources, intervention."""
_STATEMENT_TIMEOUT = "57014"
"""In class 57, but the statement's own fault."""

# A server that hangs is found out by whoever waits for it. Callers usually wait for ten seconds: the wait for
# a connection and one statement without an answer end within that together, so that callers can be told why.
CONNECT_SECONDS = 3.0
"""A server that does not accept within this time is away."""
COMMAND_SECONDS = 5.0
"""The longest wait for one statement. On a healthy server each one takes milliseconds, and waits for a lock
no longer than the transactions of the engine last."""
POOL_WAIT_SECONDS = 3.0
"""A caller that gets no connection within this time is better told so than kept."""

TRANSACTION_SILENCE_SECONDS = 15
"""A process that was stopped in its tracks, or whose machine was, keeps the rows that it had locked from all
others for no longer: a job from its cancel, an executor's session from its next hello, the pulse from every
other worker. Nobody who lives is silent so long between two statements of a transaction."""

_SERVER_SETTINGS = {
    "idle_in_transaction_session_timeout": f"{TRANSACTION_SILENCE_SECONDS}s",
    # Compiling a plan costs more than any of our statements takes.
    "jit": "off",
    # Every hot statement goes by a key. A plan that was cached while the tables were nearly empty would
    # otherwise go on reading them whole, until the next ANALYZE, however large they have become.
    "enable_seqscan": "off",
}


@asynccontextmanager
async def open_engine(
    database_url: str, *, pool_size: int, command_seconds: float = COMMAND_SECONDS
) -> AsyncIterator[AsyncEngine]:
    """Open a pool of at most `pool_size` connections; it connects when first used.

    Args:
        command_seconds: The longest wait for one statement; where statements have limits of their own, these
            are to end first.
    """
    engine = create_async_engine(
        async_url(database_url),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=POOL_WAIT_SECONDS,
        pool_use_lifo=True,
        hide_parameters=True,  # an error's text goes into logs, where no input and no output may be
        connect_args={
            "timeout": CONNECT_SECONDS,
            "command_timeout": command_seconds,
            "server_settings": _SERVER_SETTINGS,
        },
    )
    try:
        yield engine
    finally:
        await asyncio.shield(engine.dispose())


def async_url(database_url: str) -> URL:
    """Name the driver in a `postgresql://` address; libpq's `sslmode` becomes the driver's `ssl`.

    Raises:
        StartupFault: It is no address. Its text, which may hold a password, is not told.
    """
    try:
        url = make_url(database_url).set(drivername="postgresql+asyncpg")
    except (ArgumentError, ValueError):
        raise StartupFault(
            "the database URL can't be read: write postgresql://user:password@host:port/database"
        ) from None
    mode = url.query.get("sslmode")
    if mode is not None:
        return url.difference_update_query(["sslmode"]).update_query_dict({"ssl": str(mode)})
    # Off by default on loopback: the driver would else look for key files in the home directory.
    local = url.host in ("127.0.0.1", "::1", "localhost")
    return url.update_query_dict({"ssl": "disable"}) if local and "ssl" not in url.query else url


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors into the engine's words; use it around statements only.

    Raises:
        PlatformUnavailable: The server did not answer, or ended the transaction for nobody's fault. What
            was asked for may or may not have happened.
        IllegalTransition: The database refused a change of a job's state.
    """
    try:
        yield
    except DBAPIError as error:
        state = str(getattr(error.orig, "sqlstate", None) or "")
        if state == ILLEGAL_TRANSITION:
            raise IllegalTransition(str(error.orig)) from error
        if error.connection_invalidated or isinstance(error, InterfaceError) or is_nobodys_fault(state):
            raise PlatformUnavailable("database") from error
        raise
    except asyncpg.PostgresError as error:  # while connecting, when nothing wraps the driver's own errors
        if is_nobodys_fault(error.sqlstate or ""):
            raise PlatformUnavailable("database") from error
        raise
    except (PoolTimeout, TimeoutError, OSError, asyncpg.InterfaceError) as error:
        raise PlatformUnavailable("database") from error


def is_nobodys_fault(sqlstate: str) -> bool:
    """Whether a database error says nothing about the statement that met it."""
    return sqlstate[:2] in _NOBODYS_FAULT and sqlstate != _STATEMENT_TIMEOUT


class Connection:
    """One connection inside a transaction, speaking the engine's words when something fails."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def execute(
        self, statement: sa.Executable, parameters: Mapping[str, Any] | None = None
    ) -> sa.CursorResult[Any]:
        """Run one statement.

        Raises:
            PlatformUnavailable: See `translated`.
            IllegalTransition: See `translated`.
        """
        with translated():
            return await self._connection.execute(statement, parameters)
