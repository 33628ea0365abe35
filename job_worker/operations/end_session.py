"""An executor said goodbye: what it still holds goes back at once."""

from __future__ import annotations

from job_worker.operations.attempt_ends import AttemptEnds
from shared.domain.identity import IncarnationId, SessionId
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps


class EndSession:
    """Forgets a session whose executor has ended cleanly."""

    def __init__(self, transactions: Transactions, ends: AttemptEnds, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._ends = ends
        self._wake_ups = wake_ups

    async def __call__(self, incarnation_id: IncarnationId, session_id: SessionId) -> None:
        """Give back the leases that are left; idempotent, and nothing if a newer session has taken over.

        Raises:
            PlatformUnavailable: It may or may not be done; calling again is safe.
        """
        async with self._transactions.begin() as transaction:
            if not await transaction.sessions.end(incarnation_id, session_id):
                return
            left = await transaction.attempts.lock_unnamed(incarnation_id, named=())
            await transaction.states.end_attempts([self._ends.given_back(each) for each in left])
        if left:
            await self._wake_ups.jobs_changed([each.lease.job_id for each in left])
