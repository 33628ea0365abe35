"""Extends leases that are worked on, many in one statement."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.leases import Heartbeat, HeartbeatOutcome
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps


class RecordHeartbeats:
    """Writes signs of life, and tells watchers of progress."""

    def __init__(self, transactions: Transactions, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups

    async def __call__(self, heartbeats: Sequence[Heartbeat]) -> HeartbeatOutcome:
        """Extend the leases that still stand; idempotent.

        Args:
            heartbeats: May be empty; a job at most once.

        Raises:
            PlatformUnavailable: Leases may or may not be extended; calling again is safe.
        """
        async with self._transactions.begin() as transaction:
            outcome = await transaction.leases.extend(heartbeats)
        lost = set(outcome.lost)
        moved = [each.ref.job_id for each in heartbeats if _has_progress(each) and each.ref not in lost]
        if moved:
            await self._wake_ups.jobs_changed(moved)
        return outcome


def _has_progress(heartbeat: Heartbeat) -> bool:
    return heartbeat.progress is not None or heartbeat.progress_message is not None
