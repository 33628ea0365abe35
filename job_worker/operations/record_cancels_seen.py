"""Records that executors know of cancels."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.leases import LeaseRef
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps


class RecordCancelsSeen:
    """Ends a cancel's being pushed again, and tells its watchers."""

    def __init__(self, transactions: Transactions, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups

    async def __call__(self, leases: Sequence[LeaseRef]) -> None:
        """Record it for the leases that still stand; idempotent.

        Raises:
            PlatformUnavailable: It may or may not be recorded; calling again is safe.
        """
        async with self._transactions.begin() as transaction:
            seen = await transaction.leases.record_cancels_seen(leases)
        if seen:
            await self._wake_ups.jobs_changed(seen)
