"""Finds sessions whose executor has opened a newer one elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.identity import SessionId
from shared.storage.transactions import Transactions


class FindReplacedSessions:
    """A session that is not its incarnation's current one gets no lease any more, and should end."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, session_ids: Sequence[SessionId]) -> set[SessionId]:
        """Return those of the sessions that do not stand.

        Raises:
            PlatformUnavailable: The database did not answer.
        """
        if not session_ids:
            return set()
        async with self._transactions.begin() as transaction:
            return set(session_ids) - await transaction.sessions.current(session_ids)
