"""Whole batches on a stack of real processes, with everything that is told of them meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from job_api.client import AsyncClient, BatchCounters, BatchEvent, BatchId, BatchView

FAILS: Mapping[str, Any] = {"fail_attempts": [1], "fail_code": "INPUT_BROKEN"}
"""For good: trying it again within its job could not help."""

_POLL_SECONDS = 0.02


@dataclass
class Told:
    """Counters in the order in which one caller was told of them, and the events of its watch."""

    polled: list[BatchCounters] = field(default_factory=list)
    watched: list[BatchCounters] = field(default_factory=list)
    events: list[BatchEvent] = field(default_factory=list)

    def faults(self, size: int) -> list[str]:
        """Say where counters did not add up, or events were passed over."""
        numbers = [each.number for each in self.events]
        faults = [f"{each} of {size}" for each in (*self.polled, *self.watched) if total(each) != size]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            faults.append(f"events {numbers}")
        return faults


def total(counters: BatchCounters) -> int:
    return counters.waiting + counters.running + counters.succeeded + counters.failed + counters.skipped


def inputs(size: int, *, failing: Sequence[int], **work: Any) -> list[Mapping[str, Any]]:
    """Make the inputs of synthetic items, of which those with these numbers fail."""
    return [{**work, **(FAILS if number in failing else {})} for number in range(1, size + 1)]


async def followed(client: AsyncClient, batch_id: BatchId, *, after: int = 0) -> tuple[BatchView, Told]:
    """Watch and poll a batch until it has settled."""
    told = Told()
    async with _polling(client, batch_id, told.polled):
        async for update in client.watch_batch(batch_id, after=after):
            if isinstance(update.what, BatchEvent):
                told.events.append(update.what)
                told.watched.append(update.what.counters)
            else:
                told.watched.append(update.what)
        batch = await client.batch(batch_id)
    return batch, told


@asynccontextmanager
async def _polling(client: AsyncClient, batch_id: BatchId, into: list[BatchCounters]) -> AsyncIterator[None]:
    async def poll() -> None:
        while True:
            into.append((await client.batch(batch_id)).counters)
            await asyncio.sleep(_POLL_SECONDS)

    polling = asyncio.create_task(poll())
    try:
        yield
    finally:
        polling.cancel()
        with suppress(asyncio.CancelledError):
            await polling
