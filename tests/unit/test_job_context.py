"""What a handler can wait for while it works."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import uuid4

from job_worker.executor.handler import JobContext
from shared.domain.identity import JobId, LeaseToken


class Silent:
    """Takes nothing: the handler of these tests says nothing."""

    lease_uncertain = False

    def progress(self, percent: int, message: str) -> None:
        raise NotImplementedError

    async def piece(self, text: str, cancelled: asyncio.Event) -> None:
        raise NotImplementedError


async def test_another_task_of_a_handler_learns_of_the_cancel_and_goes_on() -> None:
    context = JobContext(
        job_id=JobId(uuid4()),
        attempt=1,
        token=LeaseToken("1.x"),
        time_left=timedelta(seconds=60),
        outlet=Silent(),
    )
    waiting = asyncio.create_task(context.until_cancelled())
    await asyncio.sleep(0)
    assert not waiting.done()

    context.cancel()
    await asyncio.wait_for(waiting, timeout=5)

    assert context.cancelled
