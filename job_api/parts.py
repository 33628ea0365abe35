"""What the operations and loops of one API process share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from redis.asyncio import Redis

from job_api.loops.batch_feed import BatchFeed
from job_api.loops.event_feed import EventFeed
from job_api.loops.job_feed import JobFeed
from job_api.loops.live_jobs import LiveJobs
from job_api.operations.creating import Creating
from job_api.operations.job_request import JobRequests
from job_api.operations.owner_quotas import OwnerLimits, OwnerQuotas
from job_api.settings import ApiSettings
from shared.catalog.catalog import Catalog
from shared.runtime.clock import SystemClock
from shared.runtime.ids import new_id
from shared.storage.transactions import Transactions
from shared.streams.event_copy import EventCopy
from shared.streams.lease_streams import LeaseStreams
from shared.streams.wake_ups import WakeUps


@dataclass(frozen=True, slots=True)
class Parts:
    """One of each; an `asyncio.Event` wakes the loop that it is named after."""

    settings: ApiSettings
    catalog: Catalog
    requests: JobRequests
    transactions: Transactions
    creating: Creating
    streams: LeaseStreams
    wake_ups: WakeUps
    event_copy: EventCopy
    wake_dispatcher: asyncio.Event
    wake_event_dispatcher: asyncio.Event
    wake_feed: asyncio.Event
    feed: JobFeed
    wake_live_jobs: asyncio.Event
    live_jobs: LiveJobs
    wake_batch_feed: asyncio.Event
    batch_feed: BatchFeed
    wake_event_feed: asyncio.Event
    event_feed: EventFeed

    @property
    def keep_alive(self) -> timedelta:
        return timedelta(seconds=self.settings.watch.keep_alive_seconds)

    def are_any_watched(self) -> bool:
        """Whether hints that jobs or batches have changed are of any use."""
        return any(each.is_watched() for each in (self.feed, self.live_jobs, self.batch_feed))

    async def drain(self) -> None:
        """Tell every watch to go on elsewhere."""
        await self.feed.drain()
        await self.live_jobs.drain()
        await self.batch_feed.drain()
        await self.event_feed.drain()


def made(settings: ApiSettings, catalog: Catalog, transactions: Transactions, redis: Redis) -> Parts:
    """Make the parts of a process on its connections."""
    slow_after, monotonic = timedelta(seconds=settings.watch.slow_seconds), SystemClock().monotonic
    wake_feed, wake_live_jobs, wake_batch_feed, wake_event_feed = (asyncio.Event() for _ in range(4))
    wake_dispatcher = asyncio.Event()
    return Parts(
        settings=settings,
        catalog=catalog,
        requests=JobRequests(catalog, input_bytes_max=settings.limits.input_bytes_max),
        transactions=transactions,
        creating=Creating(
            new_id=new_id,
            keys_kept_for=timedelta(hours=settings.idempotency_hours),
            wake_dispatcher=wake_dispatcher,
            quotas=OwnerQuotas(OwnerLimits(**settings.owner_limits.model_dump())),
        ),
        streams=LeaseStreams(redis, prefix=settings.redis_prefix),
        wake_ups=WakeUps(redis, prefix=settings.redis_prefix),
        event_copy=EventCopy(redis, prefix=settings.redis_prefix),
        wake_dispatcher=wake_dispatcher,
        wake_event_dispatcher=asyncio.Event(),
        wake_feed=wake_feed,
        feed=JobFeed(transactions, slow_after=slow_after, monotonic=monotonic, wake=wake_feed),
        wake_live_jobs=wake_live_jobs,
        live_jobs=LiveJobs(transactions, wake=wake_live_jobs),
        wake_batch_feed=wake_batch_feed,
        batch_feed=BatchFeed(transactions, slow_after=slow_after, monotonic=monotonic, wake=wake_batch_feed),
        wake_event_feed=wake_event_feed,
        event_feed=EventFeed(transactions, slow_after=slow_after, monotonic=monotonic, wake=wake_event_feed),
    )
