"""Both clients on the real service's feed of events."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from job_api.client import AsyncClient, Client, FeedEventView, errors
from shared.domain.jobs import JobState
from tests.support import storage
from tests.support.control_service import Control, control_running
from tests.support.feeds import all_listed
from tests.support.outgoing_events import emit_and_number, emit_many

PATIENCE_SECONDS = 20


async def listed_blocking(address: str, **which: Any) -> list[FeedEventView]:
    def read() -> list[FeedEventView]:
        with Client(address) as client:
            return list(client.events(**which))

    return await asyncio.to_thread(read)


async def listed_async(address: str, **which: Any) -> list[FeedEventView]:
    async with AsyncClient(address) as client:
        return [each async for each in client.events(**which)]


async def watched_blocking(address: str, count: int, **which: Any) -> list[FeedEventView]:
    def read() -> list[FeedEventView]:
        with Client(address) as client:
            return list(itertools.islice(client.watch_events(**which), count))

    return await asyncio.to_thread(read)


async def watched_async(address: str, count: int, **which: Any) -> list[FeedEventView]:
    found = list[FeedEventView]()
    async with AsyncClient(address) as client:
        async for event in client.watch_events(**which):
            found.append(event)
            if len(found) == count:
                break
    return found


def numbers(events: Sequence[FeedEventView]) -> list[int]:
    return [event.payload["number"] for event in events]


@pytest.mark.parametrize("listed", [listed_async, listed_blocking], ids=["async", "blocking"])
async def test_a_list_goes_through_all_pages_to_the_newest_event(control: Control, listed: Any) -> None:
    address, job_id = control.opened.address, await storage.a_job(control.transactions)
    assert await listed(address) == []
    await emit_many(control.transactions, job_id, 1, 1_500)
    await emit_and_number(control.transactions, job_id, "job.failed")
    events = await listed(address)
    assert numbers(events) == list(range(1, 1_502))
    assert await listed(address, cursor=events[-3].cursor) == events[-2:]
    assert await listed(address, event_types=["job.failed"]) == events[-1:]
    assert await listed(address, cursor=events[-1].cursor) == []
    told = events[-1].to_json()
    assert (told["eventType"], told["aggregateId"]) == ("job.failed", str(job_id))
    with pytest.raises(errors.InvalidInput):
        await listed(address, cursor="nonsense")


@pytest.mark.parametrize("watched", [watched_async, watched_blocking], ids=["async", "blocking"])
async def test_a_watch_goes_on_over_a_restart_of_the_service_without_gap_or_repeat(
    database_url: str, redis_url: str, redis_prefix: str, watched: Any
) -> None:
    async with control_running(database_url, redis_url, redis_prefix) as control:
        address = control.opened.address
        job_id = await storage.a_job(control.transactions)
        await emit_many(control.transactions, job_id, 1, 10)
        watching = asyncio.create_task(watched(address, 20))
        await all_listed(control, at_least=10)
        (first,) = await watched(address, 1)
    async with (
        control_running(database_url, redis_url, redis_prefix, control_address=address) as control,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        await emit_many(control.transactions, job_id, 11, 20)
        await storage.job_in(control.transactions, JobState.SUCCEEDED)
        assert numbers(await watching) == list(range(1, 21))
        resumed = await watched(address, 19, cursor=first.cursor)
        assert numbers(resumed) == list(range(2, 21))
