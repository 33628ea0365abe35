"""Database time that stands still between two moves, so that a model knows every point in time exactly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from shared.storage.transactions import Transactions

BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)

_MAKE = (
    "create table frozen_time (now timestamptz not null)",
    "insert into frozen_time values ('2030-01-01 00:00:00+00')",
    """
    create or replace function engine_time() returns timestamptz
        language sql volatile as $$ select now from frozen_time $$
    """,
)
_SET = sa.text("update frozen_time set now = :now")
_PULSE = sa.text("update pulse set pulse_time = engine_time()")


class FrozenTime:
    """The time of a test's own database."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self.now = BEGINNING

    async def freeze(self) -> None:
        """Replace the database's one source of time; once for each database."""
        async with self._transactions.begin() as transaction:
            for statement in _MAKE:
                await transaction.connection.execute(sa.text(statement))

    async def restart(self) -> None:
        """Go back to the beginning."""
        await self._set(BEGINNING, pulse=True)

    async def advance(self, span: timedelta) -> None:
        """Move on, with workers whose pulse never stopped."""
        await self._set(self.now + span, pulse=True)

    async def sleep(self, span: timedelta) -> None:
        """Move on while no worker lived."""
        await self._set(self.now + span, pulse=False)

    async def _set(self, now: datetime, *, pulse: bool) -> None:
        async with self._transactions.begin() as transaction:
            await transaction.connection.execute(_SET, {"now": now})
            if pulse:
                await transaction.connection.execute(_PULSE)
        self.now = now
