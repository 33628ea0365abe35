"""What becomes of outbox rows that can't be delivered for a reason of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from shared.storage.database import Connection
from shared.storage.rows import columns, unnested

TRIES_MAX = 3
"""So many failed tries make a row dead: it stays, and is not tried again before an operator says so."""
RETRY_SECONDS = 5.0
"""The wait between tries: long enough for a person's slip to be put right meanwhile."""
MESSAGE_CHARACTERS_MAX = 200

_COLUMNS = {"outbox_id": "bigint", "code": "text", "message": "text"}
_RECORD = sa.text(f"""
update outbox o set
    tries = o.tries + 1,
    state = case when o.tries + 1 >= {TRIES_MAX} then 'dead' else 'pending' end,
    available_time = engine_time() + {RETRY_SECONDS} * interval '1 second',
    last_error_code = f.code, last_error_message = f.message
from {unnested(_COLUMNS, "f")} where o.outbox_id = f.outbox_id
returning o.outbox_id, o.state
""")


@dataclass(frozen=True, slots=True)
class DeliveryFailure:
    """Why one row could not be delivered; says nothing about others."""

    outbox_id: int
    code: str
    message: str


class DeliveryFailures:
    """Counts tries. A Redis that is away is no try: nothing is recorded then."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def record(self, failures: Sequence[DeliveryFailure]) -> list[int]:
        """Count a try of each row, which this transaction has locked, and return those that are dead now."""
        if not failures:
            return []
        rows = [
            {
                "outbox_id": each.outbox_id,
                "code": each.code,
                "message": each.message[:MESSAGE_CHARACTERS_MAX],
            }
            for each in failures
        ]
        recorded = await self._connection.execute(_RECORD, columns(rows, _COLUMNS))
        return [row.outbox_id for row in recorded if row.state == "dead"]
