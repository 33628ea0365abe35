"""Both clients on the real service's live views."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from job_api.client import AsyncClient, Client, JobChange, JobState, ViewBegan, errors
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from tests.support import storage
from tests.support.control_service import Control, control_running

PATIENCE_SECONDS = 20
Tell = Callable[[object], None]


async def watched_blocking(address: str, count: int, tell: Tell, **which: Any) -> None:
    def read() -> None:
        with Client(address) as client:
            for update in itertools.islice(client.watch_jobs(**which), count):
                tell(update)

    await asyncio.to_thread(read)


async def watched_async(address: str, count: int, tell: Tell, **which: Any) -> None:
    async with AsyncClient(address) as client:
        async for update in client.watch_jobs(**which):
            tell(update)
            count -= 1
            if not count:
                break


def states(updates: Sequence[object]) -> list[object]:
    return [each.job.state if isinstance(each, JobChange) else each for each in updates]


class Told:
    """What a client has told so far."""

    def __init__(self) -> None:
        self.updates: list[object] = []
        self._loop = asyncio.get_running_loop()
        self._more = asyncio.Event()

    def tell(self, update: object) -> None:
        self.updates.append(update)
        self._loop.call_soon_threadsafe(self._more.set)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.updates) < count:
                self._more.clear()
                await self._more.wait()


both = pytest.mark.parametrize("watched", [watched_async, watched_blocking], ids=["async", "blocking"])


@both
async def test_a_view_goes_on_over_a_restart_and_says_that_it_began_anew(
    database_url: str, redis_url: str, redis_prefix: str, watched: Any
) -> None:
    told = Told()
    async with control_running(database_url, redis_url, redis_prefix) as control:
        address = control.opened.address
        watching = asyncio.create_task(watched(address, 4, told.tell, job_type="synthetic"))
        await told.until(1)
        await control.create()
        await told.until(2)
    lease = await lease_of_the_past(database_url)
    async with control_running(database_url, redis_url, redis_prefix, control_address=address) as control:
        await told.until(3)
        await storage.end_attempt(control.transactions, lease, AttemptEnd(AttemptOutcome.SUCCEEDED))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await watching
    assert states(told.updates) == [ViewBegan(), JobState.QUEUED, ViewBegan(), JobState.SUCCEEDED]


async def lease_of_the_past(database_url: str) -> Any:
    async with storage.opened(database_url) as transactions:
        return (await storage.a_lease(transactions)).ref


@both
async def test_a_view_tells_who_left_and_what_the_filter_must_be(control: Control, watched: Any) -> None:
    told, address = Told(), control.opened.address
    watching = asyncio.create_task(watched(address, 2, told.tell, states=[JobState.QUEUED]))
    await told.until(1)
    job = await control.create()
    await told.until(2)
    await watching
    (change,) = told.updates[1:]
    assert isinstance(change, JobChange)
    assert (str(change.job.job_id), change.left) == (job.job_id, False)
    assert change.to_json()["job"]["state"] == "QUEUED"
    with pytest.raises(errors.InvalidInput):
        await watched(address, 1, told.tell, text="a")
