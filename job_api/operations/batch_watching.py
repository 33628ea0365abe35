"""Watches of batches in memory: how far each has come, and what waits to be sent."""

from __future__ import annotations

from collections.abc import Sequence

from job_api.operations.subscriptions import EndReason, KeepAlive, Sent, Subscription
from shared.domain.batches import BatchCounters, BatchEvent
from shared.domain.identity import BatchId

BatchUpdate = BatchEvent | BatchCounters | KeepAlive | EndReason


class BatchSubscription(Subscription[BatchEvent | BatchCounters, int]):
    """One watch of a batch: events wait by number, and of the counters between them only the latest.

    The position is the number of the last event, 0 before the first.
    """

    def __init__(self, batch_id: BatchId, position: int) -> None:
        super().__init__(position)
        self.batch_id = batch_id
        self._counters_seen: BatchCounters | None = None

    def put(self, events: Sequence[BatchEvent]) -> None:
        """Let events wait, and move on behind them; nothing happens if the watch has ended."""
        if self.ended or not events:
            return
        self._latest = None  # older than the counters that these events bring
        self._counters_seen = events[-1].counters
        self.position = events[-1].number
        self._let_wait(Sent(each, each.number) for each in events)

    def put_counters(self, counters: BatchCounters) -> None:
        """Replace the counters that wait, if these are news; they are no older than the last event."""
        if not self.ended and counters != self._counters_seen:
            self._counters_seen = counters
            self._let_latest_wait(counters)
