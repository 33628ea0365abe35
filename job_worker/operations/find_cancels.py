"""Finds the cancels that executors have not acknowledged."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.identity import SessionId
from shared.domain.leases import LeaseRef
from shared.storage.transactions import Transactions


class FindCancels:
    """Asks Postgres, which alone knows of all."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, session_ids: Sequence[SessionId]) -> list[tuple[SessionId, LeaseRef]]:
        """Return the leases of these sessions whose job is to be cancelled and whose executor did not say so.

        Raises:
            PlatformUnavailable: The database did not answer.
        """
        if not session_ids:
            return []
        async with self._transactions.begin() as transaction:
            return await transaction.leases.unseen_cancels(session_ids)
