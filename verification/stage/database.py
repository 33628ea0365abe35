"""Connections to the stack's database, which may go away at any moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)
"""What a question to the database raises while it is away."""


@asynccontextmanager
async def connected(database_url: str) -> AsyncIterator[Any]:
    """Open a connection that is closed with the block; what it has not committed is undone."""
    connection = await asyncpg.connect(database_url, ssl=False)
    try:
        yield connection
    finally:
        with suppress(*AWAY):  # it may be broken, and that must not hide a cancel, or what came before
            await connection.close()
