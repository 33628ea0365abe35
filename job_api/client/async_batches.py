"""What the client for programs of asyncio can do with batches."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable
from datetime import timedelta
from typing import Unpack

from job_api.client import batch_asks
from job_api.client.asks import Input
from job_api.client.async_calls import AsyncCalls
from job_api.client.batch_asks import BatchFilter, BatchOptions
from job_api.client.batch_views import (
    BatchEstimateView,
    BatchItemView,
    BatchUnfinished,
    BatchUpdate,
    BatchView,
    ItemsRetriedView,
)
from job_api.client.tries import require_span
from job_api.client.watching import TimeOver
from shared.domain.batches import BatchState
from shared.domain.identity import BatchId
from shared.domain.jobs import JobState


class AsyncBatchMethods:
    """The part of `AsyncClient` that is about batches."""

    _calls: AsyncCalls

    async def run_batch(
        self,
        job_type: str,
        inputs: Iterable[Input],
        *,
        within: timedelta | None = None,
        **options: Unpack[BatchOptions],
    ) -> BatchView:
        """Create a batch, wait until it has settled, and return it with the items that failed.

        However its items end, nothing is raised: `state` and `failed_items` tell. With the same key, a
        repeated run waits for the same batch. Whoever stops waiting does not stop it.

        Raises:
            BatchUnfinished: It had not settled `within` this time, and goes on.
        """
        require_span("within", within)
        batch = await self.create_batch(job_type, inputs, **options)
        return await self.settled_batch(batch.batch_id, within=within)

    async def settled_batch(self, batch_id: BatchId, *, within: timedelta | None = None) -> BatchView:
        """Wait until a batch has settled, and return it with the items that failed.

        Raises:
            BatchUnfinished: It had not settled `within` this time, and goes on.
        """
        with contextlib.suppress(TimeOver):
            async for _ in self.watch_batch(batch_id, within=within):
                pass
        batch = await self.batch(batch_id)
        if not batch.settled:
            raise BatchUnfinished(batch)
        return batch

    async def estimate_batch(self, job_type: str, size: int) -> BatchEstimateView:
        """Say what a batch of so many items is likely to take; nothing is created."""
        return await self._calls.ask(batch_asks.estimate_batch(job_type, size))

    async def create_batch(
        self, job_type: str, inputs: Iterable[Input], **options: Unpack[BatchOptions]
    ) -> BatchView:
        """Create a batch with an item for each input, or find the one that an earlier call with the same key
        created. All of it is created, or none."""
        return await self._calls.ask(batch_asks.create_batch(job_type, inputs, options))

    async def batch(self, batch_id: BatchId) -> BatchView:
        """Return a batch, with the items that failed."""
        return await self._calls.ask(batch_asks.get_batch(batch_id))

    def batches(self, *, page_size: int = 0, **which: Unpack[BatchFilter]) -> AsyncIterator[BatchView]:
        """Yield batches that fit, newest first; each page is asked for when it is needed."""
        return self._calls.each(batch_asks.list_batches(which, page_size=page_size))

    def batch_items(
        self, batch_id: BatchId, *, states: Collection[JobState] = (), page_size: int = 0
    ) -> AsyncIterator[BatchItemView]:
        """Yield a batch's items by number, each with its newest job; all, or those in one of these states."""
        return self._calls.each(batch_asks.list_batch_items(batch_id, states=states, page_size=page_size))

    async def cancel_batch(self, batch_id: BatchId) -> BatchView:
        """Skip the items that wait, at once; those that run may finish, and then the batch is CANCELLED."""
        return await self._calls.ask(batch_asks.cancel_batch(batch_id))

    async def retry_batch_items(
        self,
        batch_id: BatchId,
        items: Collection[int] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> ItemsRetriedView:
        """Try failed items again, by their numbers; all of them for None.

        Without a key, one of this call's own makes its tries safe: none runs an item again that has failed
        once more meanwhile.
        """
        return await self._calls.ask(batch_asks.retry_batch_items(batch_id, items, idempotency_key))

    async def select_batch_items(self, batch_id: BatchId, items: Collection[int]) -> BatchView:
        """Pick succeeded items of a settled batch, which becomes SELECTED."""
        return await self._calls.ask(batch_asks.select_batch_items(batch_id, items))

    async def advance_batch(self, batch_id: BatchId, state: BatchState) -> BatchView:
        """Say that a SELECTED batch is EXPORTED, or an EXPORTED one STORED."""
        return await self._calls.ask(batch_asks.advance_batch(batch_id, state))

    def watch_batch(
        self, batch_id: BatchId, *, after: int = 0, cursor: str = "", within: timedelta | None = None
    ) -> AsyncGenerator[BatchUpdate, None]:
        """Yield what happens to a batch until it has settled; resumes by itself when a stream breaks.

        A batch that is tried again goes on behind the last cursor, in a watch of its own.

        Args:
            after: Start after the event of this number; 0 is from the beginning.
            cursor: Start after this update of an earlier watch; `after` does not count then.
            within: The time for all of it; `TimeOver` is raised then. None is for as long as it takes.
        """
        return self._calls.watch(batch_asks.watch_batch(batch_id, after=after, cursor=cursor), within)
