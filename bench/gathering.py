"""Puts concurrent creates of one process into CreateJobs calls, as a busy client would."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

_BATCH_MAX = 200
"""Jobs to a call: enough to make the call cheap, few enough to keep its answer soon."""
_CALLS_AT_ONCE = 2
"""One travels while the other is worked on."""

CreateMany = Callable[[Sequence[bytes]], Awaitable[Sequence[str]]]
"""Creates jobs in one call, and returns their ids in the order of the documents."""


class Gathering:
    """Sends what waits as soon as a call is free: one caller alone never waits for others."""

    def __init__(self, create_many: CreateMany) -> None:
        self._create_many = create_many
        self._waiting: list[tuple[bytes, asyncio.Future[str]]] = []
        self._calls: set[asyncio.Task[None]] = set()

    async def create(self, document: bytes) -> str:
        """Create a job and return its id."""
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append((document, outcome))
        if len(self._calls) < _CALLS_AT_ONCE:
            call = asyncio.create_task(self._send())
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        return await outcome

    async def _send(self) -> None:
        """Send calls until nothing waits; each caller gets its own job's id, or the call's error."""
        while self._waiting:
            batch, self._waiting = self._waiting[:_BATCH_MAX], self._waiting[_BATCH_MAX:]
            try:
                job_ids = await self._create_many([document for document, _ in batch])
            except Exception as error:  # noqa: BLE001 - it is every waiting caller's
                for _, outcome in batch:
                    outcome.set_exception(error)
            else:
                for (_, outcome), job_id in zip(batch, job_ids, strict=True):
                    outcome.set_result(job_id)
