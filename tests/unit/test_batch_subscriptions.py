"""What waits for a watcher of a batch, in which order."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from job_api.operations.batch_watching import BatchSubscription
from job_api.operations.subscriptions import EndReason, KeepAlive
from shared.domain.batches import BatchCounters, BatchEvent, BatchState
from shared.domain.identity import BatchId

BATCH = BatchId(UUID(int=7))


def counters(running: int = 0, succeeded: int = 0) -> BatchCounters:
    return BatchCounters(9 - running - succeeded, running, succeeded, 0, 0)


def event(number: int, counted: BatchCounters) -> BatchEvent:
    return BatchEvent(BATCH, number, BatchState.RUNNING, counted, datetime(2026, 1, 1, tzinfo=UTC))


async def taken(subscription: BatchSubscription) -> tuple[object, int]:
    sent = await subscription.take(keep_alive_seconds=0)
    return sent.update, sent.position


async def test_of_counters_the_latest_is_told_and_the_same_is_not_told_twice() -> None:
    subscription = BatchSubscription(BATCH, 1)
    for running in (1, 2, 3):
        subscription.put_counters(counters(running))
    assert await taken(subscription) == (counters(3), 1)
    subscription.put_counters(counters(3))
    assert await taken(subscription) == (KeepAlive(), 1)


async def test_counters_are_never_older_than_the_events_before_them() -> None:
    subscription = BatchSubscription(BATCH, 1)
    subscription.put_counters(counters(2))
    ended = event(2, counters(1, 1))
    subscription.put([ended])
    subscription.put_counters(ended.counters)
    assert await taken(subscription) == (ended, 2)
    assert await taken(subscription) == (KeepAlive(), 2)
    subscription.put_counters(counters(3, 1))
    assert await taken(subscription) == (counters(3, 1), 2)


async def test_a_watch_that_has_ended_takes_nothing_more() -> None:
    subscription = BatchSubscription(BATCH, 1)
    subscription.put([event(2, counters(1))])
    subscription.end(EndReason.SLOW)
    subscription.put([event(3, counters(2))])
    subscription.put_counters(counters(3))
    assert await taken(subscription) == (EndReason.SLOW, 1)
