"""Gathers what many tasks create at the same moment into calls of CreateJobs: a call costs more than a job.

No timer is involved. A creation that comes while a call is free goes at once, alone if it is alone; what
comes while all calls are under way waits, and goes together once one is back.

Each creation has an outcome of its own. One that is refused in a shared call is asked for again, alone and
under its key, which changes nothing and brings its error whole. A shared call that fails, with all its tries,
fails for each of its creations. One whose caller has gone is left out if it was not sent yet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from job_api.client import convert
from job_api.client.asks import Ask
from job_api.client.async_calls import AsyncCalls
from job_api.client.failures import CallFailed
from job_api.client.views import JobView
from shared.gen.baton.v1 import job_control_pb2 as pb

ITEMS_MAX = 200
"""Of one call: enough to make it cheap, few enough to have its answer soon."""
BYTES_MAX = 4 << 20
"""Of one call, a quarter of what a message may hold; at least one creation is taken, whatever its size."""
CALLS_MAX = 2
"""Under way at a time: one travels while the service works on the other."""


@dataclass(frozen=True, slots=True, eq=False)
class _Creation:
    """What one task waits for; None says that it is to ask alone."""

    ask: Ask[JobView]
    outcome: asyncio.Future[JobView | None]

    def tell(self, job: JobView | None) -> None:
        if not self.outcome.done():  # its caller may have gone
            self.outcome.set_result(job)

    def fail(self, error: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)


class Gathering:
    """The creations of one client; what sends them are tasks that end by themselves when nothing waits."""

    def __init__(self, calls: AsyncCalls, *, within: timedelta) -> None:
        self._calls = calls
        self._seconds = within.total_seconds()
        self._waiting: deque[_Creation] = deque()
        self._sending: set[asyncio.Task[None]] = set()

    async def create(self, ask: Ask[JobView]) -> JobView:
        creation = _Creation(ask, asyncio.get_running_loop().create_future())
        self._waiting.append(creation)
        if len(self._sending) < CALLS_MAX:
            # It runs after all tasks that are ready now, so what they create goes with its first call.
            sending = asyncio.create_task(self._send())
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)
        try:
            async with asyncio.timeout(self._seconds):
                job = await creation.outcome
        except TimeoutError:
            raise CallFailed("DEADLINE_EXCEEDED", "the job was not created in time") from None
        return job if job is not None else await self._calls.ask(ask)

    async def ended(self) -> None:
        """Wait until nothing is sent any more; of a client that was closed, at once."""
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def _send(self) -> None:
        while batch := self._next():
            try:
                jobs = await self._created(batch)
            except Exception as error:  # noqa: BLE001 - it is every waiting caller's
                for creation in batch:
                    creation.fail(error)
            else:
                for creation, job in zip(batch, jobs, strict=True):
                    creation.tell(job)

    def _next(self) -> Sequence[_Creation]:
        batch, size = list[_Creation](), 0
        while self._waiting and len(batch) < ITEMS_MAX:
            size += self._waiting[0].ask.request.ByteSize()
            if batch and size > BYTES_MAX:
                break
            creation = self._waiting.popleft()
            if not creation.outcome.done():
                batch.append(creation)
        return batch

    async def _created(self, batch: Sequence[_Creation]) -> Sequence[JobView | None]:
        if len(batch) == 1:
            return [await self._calls.ask(batch[0].ask)]
        return await self._calls.ask(_create_jobs([each.ask for each in batch]))


def _create_jobs(asks: Sequence[Ask[JobView]]) -> Ask[Sequence[JobView | None]]:
    request = pb.CreateJobsRequest(jobs=[cast("pb.CreateJobRequest", each.request) for each in asks])
    return Ask("CreateJobs", request, lambda told: [_job(each) for each in told.outcomes])


def _job(outcome: pb.CreateJobOutcome) -> JobView | None:
    return convert.created_view(outcome.created) if outcome.HasField("created") else None
