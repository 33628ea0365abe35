"""Writes the services' pulse, so that nobody's lease ends because the services were silent."""

from __future__ import annotations

from datetime import timedelta

import structlog

from shared.storage.transactions import Transactions

log = structlog.get_logger(__name__)


class RecordPulse:
    """Every replica writes the same row; the newest time counts."""

    def __init__(self, transactions: Transactions, *, tolerance: timedelta) -> None:
        """Take `tolerance` as the longest time without a pulse that costs the leases nothing."""
        self._transactions = transactions
        self._tolerance = tolerance

    async def __call__(self) -> None:
        """Write the pulse; if there was none for too long, every lease gets that time back.

        Raises:
            PlatformUnavailable: The database did not answer.
        """
        async with self._transactions.begin() as transaction:
            silence = await transaction.leases.beat(tolerance=self._tolerance)
        if silence > self._tolerance:
            log.warning("leases.reprieved", silence_s=silence.total_seconds())
