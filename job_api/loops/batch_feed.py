"""Reads events and counters of watched batches, of many by one statement each.

Events are read before the batch's row. So where the row knows of no event behind those that were read, its
counters are those after the last of them, with what has started or gone back to waiting since; and counters
that reach a watcher between two events never fall behind the earlier one.

Most of what changes a batch is an executor's work, and no hint tells which batch it was: the poll finds it.
What callers ask for is hinted at by the batch's id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from job_api.loops.subject_feed import SubjectFeed
from job_api.operations.batch_watching import BatchSubscription
from job_api.operations.subscriptions import EndReason
from shared.domain.batches import OPEN_STATES, Batch, BatchEvent
from shared.domain.errors import BatchNotFound
from shared.domain.identity import BatchId
from shared.storage.transactions import Transaction

EVENTS_MAX = 250
"""Of one batch in one step, some 50 KB; that much more than its room may wait for one watch."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is new about a batch; the batch was read last."""

    events: Sequence[BatchEvent]
    batch: Batch


class BatchFeed(SubjectFeed[BatchId, BatchSubscription, Found]):
    """Hands events and counters to the watchers of batches."""

    subject_field = "batch_id"

    def _subject(self, subscription: BatchSubscription) -> BatchId:
        return subscription.batch_id

    async def _read(
        self, transaction: Transaction, positions: Mapping[BatchId, int]
    ) -> Mapping[BatchId, Found]:
        events: defaultdict[BatchId, list[BatchEvent]] = defaultdict(list)
        for event in await transaction.batches.events_after(positions, limit=EVENTS_MAX):
            events[event.batch_id].append(event)
        batches = await transaction.batches.get_many(list(positions))
        return {batch_id: Found(events[batch_id], batch) for batch_id, batch in batches.items()}

    def _hand_out(self, subscription: BatchSubscription, news: Found | None) -> bool:
        if news is None:
            subscription.end(BatchNotFound(subscription.batch_id))
            return True
        subscription.put(news.events)
        batch = news.batch
        if subscription.position < batch.last_event_number:
            return False
        if batch.state in OPEN_STATES:
            subscription.put_counters(batch.counters)
        else:
            subscription.end(EndReason.FINISHED)
        return True
