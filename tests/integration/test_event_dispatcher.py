"""The copy of events for other services, on real servers."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from job_api.loops.event_dispatcher import EventDispatcher
from job_api.loops.event_numbering import EventNumbering
from shared.domain.jobs import JobState
from shared.storage.transactions import Transactions
from shared.streams.event_copy import EventCopy
from tests.support.storage import a_job, job_in


async def test_outgoing_events_are_copied_once_in_order_and_dispatches_are_not_among_them(
    transactions: Transactions, redis: Redis, redis_prefix: str
) -> None:
    succeeded = await job_in(transactions, JobState.SUCCEEDED)
    cancelled = await job_in(transactions, JobState.CANCELLED)
    await a_job(transactions)
    await EventNumbering(transactions, wake=()).step()
    events = EventDispatcher(transactions, EventCopy(redis, prefix=redis_prefix))

    assert await events.step() is False
    assert await events.step() is False

    copied: list[Any] = [fields for _, fields in await redis.xrange(f"{redis_prefix}events") or []]
    assert [each[b"dedupe_key"].decode() for each in copied] == [
        f"job.succeeded:{succeeded}:1",
        f"job.cancelled:{cancelled}:1",
    ]
