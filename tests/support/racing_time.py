"""Database time that a test moves while others decide by it."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from shared.storage.transactions import Transactions

# Every transaction sees a sequence as it is now, so that time goes back for nobody, whatever its snapshot.
_MAKE = (
    "create sequence passed_milliseconds minvalue 0 start 0",
    """
    create or replace function engine_time() returns timestamptz language sql volatile as $$
        select clock_timestamp() + (select last_value from passed_milliseconds) * interval '1 millisecond'
    $$
    """,
)
_MOVE = sa.text("select setval('passed_milliseconds', (select last_value from passed_milliseconds) + :span)")


class RacingTime:
    """The time of a test's own database, which goes on by itself and further when a test says so."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def make_movable(self) -> None:
        """Replace the database's one source of time; once for each database."""
        async with self._transactions.begin() as transaction:
            for statement in _MAKE:
                await transaction.connection.execute(sa.text(statement))

    async def jump(self, span: timedelta) -> None:
        """Move the time at once. To be called by one actor only."""
        async with self._transactions.begin() as transaction:
            await transaction.connection.execute(_MOVE, {"span": span // timedelta(milliseconds=1)})
