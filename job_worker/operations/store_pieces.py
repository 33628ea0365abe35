"""Stores streamed output, many pieces in one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.domain.leases import LeaseRef
from shared.storage.pieces import OutputPiece
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps

__all__ = ["OutputPiece", "StorePieces"]


class StorePieces:
    """Stores under the current lease only."""

    def __init__(self, transactions: Transactions, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups

    async def __call__(self, pieces: Sequence[OutputPiece]) -> Mapping[LeaseRef, int]:
        """Store the pieces, and return the last number for each lease that still stands; idempotent.

        Raises:
            PlatformUnavailable: They may or may not be stored; calling again is safe.
        """
        async with self._transactions.begin() as transaction:
            stored = await transaction.pieces.add(pieces)
        if stored:
            await self._wake_ups.jobs_changed([each.job_id for each in stored])
        return stored
