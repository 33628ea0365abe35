"""Moves the time by which everything is decided: the database's."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from shared.domain.leases import PULSE_INTERVAL, PULSE_TOLERANCE
from shared.storage.transactions import Transactions

_MAKE = (
    "create table time_offset (passed interval not null)",
    "insert into time_offset values (interval '0')",
    """
    create or replace function engine_time() returns timestamptz
        language sql volatile as $$ select clock_timestamp() + (select passed from time_offset) $$
    """,
)
_MOVE = sa.text("update time_offset set passed = passed + cast(:span as interval)")


class DatabaseTime:
    """The time of a test's own database, which goes on by itself and further when a test says so."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def make_movable(self) -> None:
        """Replace the database's one source of time, with workers that live by it; once for each database."""
        async with self._transactions.begin() as transaction:
            for statement in _MAKE:
                await transaction.connection.execute(sa.text(statement))
        await self.pulse()

    async def jump(self, span: timedelta) -> None:
        """Move the time at once: as if all services had been away meanwhile."""
        async with self._transactions.begin() as transaction:
            await transaction.connection.execute(_MOVE, {"span": span})

    async def pulse(self) -> timedelta:
        """Write a pulse as a worker does, and return how long there was none."""
        async with self._transactions.begin() as transaction:
            return await transaction.leases.beat(tolerance=PULSE_TOLERANCE)

    async def advance(self, span: timedelta) -> None:
        """Move the time, with a living worker's pulse in every second of it."""
        left = span
        while left > timedelta(0):
            step = min(left, PULSE_INTERVAL)
            await self.jump(step)
            await self.pulse()
            left -= step
