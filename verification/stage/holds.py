"""Gaps that are held open: rows that are there but not committed, so that the engine has to wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from verification.stage.database import connected
from verification.stage.stage import Stage

_WAIT_SECONDS = 30.0
"""For what a second is long for."""

_HELD_UP = """
select count(*) from pg_stat_activity waiting
where strpos(waiting.query, $2) > 0 and exists (
    select from pg_stat_activity holding
    where holding.pid = any(pg_blocking_pids(waiting.pid)) and strpos(holding.query, $1) = 1)
"""


@dataclass(frozen=True, slots=True)
class Hold:
    """A statement of the suite's that waits to be undone."""

    stage: Stage
    mark: str

    async def until_waited_for(self, transactions: int = 1, *, by: str = "") -> None:
        """Wait until so many transactions of the engine wait for it.

        Args:
            by: A part of the statement that waits, where others may wait too.
        """
        await self.stage.until_value(
            _HELD_UP,
            self.mark,
            by,
            holds=lambda count: count >= transactions,
            seconds=_WAIT_SECONDS,
            what=f"{transactions} transactions to wait for what is held",
        )


@asynccontextmanager
async def held(stage: Stage, query: str, *arguments: Any) -> AsyncIterator[Hold]:
    """Run a statement, and undo it at the end of the block, as if it had never been.

    Args:
        query: Inserts rows that the engine is to wait for, or locks them.
    """
    mark = f"/* {uuid4().hex} */"
    async with connected(stage.stack.database_url) as connection:
        await connection.transaction().start()
        await connection.fetch(f"{mark} {query}", *arguments)
        yield Hold(stage, mark)
