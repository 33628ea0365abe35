"""What callers do to batches while everything is killed: calls race each other and the ends of items."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from shared.gen.baton.v1 import batch_pb2, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.evidence.tables import LABEL
from verification.peers.batches import Batches
from verification.peers.control import AWAY, Refused
from verification.stage.database import AWAY as DATABASE_AWAY
from verification.stage.fire import Fire
from verification.stage.stage import Stage
from verification.unmet import require

_SECONDS = 60.0
_SECONDS_MIN = 20.0
_BATCHES = 12
_ITEMS = 120
_CALLERS = 6
_CANCELLED_SHARE = 0.2
_PAUSE_SECONDS = (0.0, 0.15)
_SETTLE_SECONDS = 240.0
_LOOK_SECONDS = 1.0
_EXECUTORS = ("a", "b", "c", "d")
_AT_ONCE = 8
_REFUSALS = frozenset({"BATCH_STATE_CONFLICT", "JOB_ALREADY_CANCELLED", "JOB_NOT_CANCELLABLE"})
"""Of those who come second."""
_DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


async def every_call_races_every_other_under_fire(stage: Stage) -> None:
    """Items are cancelled, alone and together, and tried again under fire; nobody waits in a circle."""
    seconds = max(_SECONDS * stage.terms.scale, _SECONDS_MIN)
    executors = await stage.executors.start_all(*_EXECUTORS, kept_alive=True, queues__drill__at_once=_AT_ONCE)
    batches = Batches(stage.control)
    created = [await batches.create(_items(stage)) for _ in range(_BATCHES)]
    over, closed = asyncio.Event(), asyncio.Event()
    watches = [stage.beside(_told_all(batches, each.batch_id, closed)) for each in created]
    deadlocks = stage.beside(_deadlocks(stage, closed))
    callers = [stage.beside(_Caller(stage, created).call_until(over)) for _ in range(_CALLERS)]
    await Fire(stage, executors).burn(seconds)
    over.set()
    calls = sum(await asyncio.gather(*callers))
    await stage.settle(seconds=_SETTLE_SECONDS)
    closed.set()
    for batch, watch in zip(created, watches, strict=True):
        last = (await batches.get(batch.batch_id)).batch.last_event_number
        told = await watch
        require(told == list(range(1, last + 1)), f"a watch of {last} events was told of {told}")
    found = await deadlocks
    require(found == 0, f"{found} transactions have waited for each other in a circle")
    stage.notes |= {"batches": _BATCHES, "items": _ITEMS, "calls": calls}


class _Caller:
    """Calls whatever chance says; what another one has done before is refused."""

    def __init__(self, stage: Stage, batches: Sequence[batch_pb2.Batch]) -> None:
        self._stage = stage
        self._batches = batches
        self._actions: dict[Callable[[str], Awaitable[Any]], int] = {
            self._retry_all: 6,
            self._retry_one: 4,
            self._cancel_one: 6,
            self._cancel_many: 1,
            self._retry_many: 1,
            self._read: 2,
            self._cancel_batch: 1,
        }

    async def call_until(self, over: asyncio.Event) -> int:
        chance, calls = self._stage.random, 0
        while not over.is_set():
            (action,) = chance.choices(list(self._actions), list(self._actions.values()))
            try:
                await action(chance.choice(self._batches).batch_id)
            except Refused as refused:
                expected = refused.status in AWAY or refused.reason in _REFUSALS
                require(expected, f"{action.__name__} was refused: {refused}")
            calls += 1
            await asyncio.sleep(chance.uniform(*_PAUSE_SECONDS))
        return calls

    async def _retry_all(self, batch_id: str) -> None:
        await self._stage.control.call("RetryBatchItems", pb.RetryBatchItemsRequest(batch_id=batch_id))

    async def _retry_one(self, batch_id: str) -> None:
        request = pb.RetryBatchItemsRequest(batch_id=batch_id, items=[self._stage.random.randint(1, _ITEMS)])
        await self._stage.control.call("RetryBatchItems", request)

    async def _cancel_one(self, batch_id: str) -> None:
        for item in (await self._some_items(batch_id))[:1]:
            await self._stage.control.call("CancelJob", pb.CancelJobRequest(job_id=item.job.job_id))

    async def _cancel_many(self, batch_id: str) -> None:
        chosen = pb.JobFilter(labels={LABEL: self._stage.run}, states=[job_pb2.JOB_STATE_RUNNING])
        await self._stage.control.call("CancelJobs", pb.CancelJobsRequest(filter=chosen))

    async def _retry_many(self, batch_id: str) -> None:
        chosen = pb.JobFilter(batch_id=batch_id, states=[job_pb2.JOB_STATE_FAILED])
        await self._stage.control.call("RetryJobs", pb.RetryJobsRequest(filter=chosen))

    async def _read(self, batch_id: str) -> None:
        shown = await self._stage.control.call("GetBatch", pb.GetBatchRequest(batch_id=batch_id))
        require(shown.batch.size == _ITEMS, f"{shown.batch}")

    async def _cancel_batch(self, batch_id: str) -> None:
        if self._stage.random.random() < _CANCELLED_SHARE:
            await self._stage.control.call("CancelBatch", pb.CancelBatchRequest(batch_id=batch_id))

    async def _some_items(self, batch_id: str) -> Sequence[batch_pb2.BatchItem]:
        states = [job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING]
        request = pb.ListBatchItemsRequest(batch_id=batch_id, states=states)
        listed = await self._stage.control.call("ListBatchItems", request)
        items = list(listed.items)
        self._stage.random.shuffle(items)
        return items


def _items(stage: Stage) -> Sequence[dict[str, Any]]:
    kinds: Sequence[dict[str, Any]] = (
        {"fail_attempts": list(range(1, 101)), "fail_code": "INPUT_BROKEN"},
        {"fail_attempts": [1]},
        {"duration_seconds": 1.0, "items": 4},
        {},
    )
    return [stage.work(**stage.random.choice(kinds)) for _ in range(_ITEMS)]


async def _told_all(batches: Batches, batch_id: str, closed: asyncio.Event) -> list[int]:
    """Watch a batch over all of its settlings, until nobody changes it any more; return the numbers."""
    numbers = list[int]()
    while True:
        after = numbers[-1] if numbers else 0
        events = await batches.watch_to_end(batch_id, after=after, seconds=2 * _SETTLE_SECONDS)
        numbers += [each.number for each in events]
        if closed.is_set() and numbers[-1] == (await batches.get(batch_id)).batch.last_event_number:
            return numbers
        await asyncio.sleep(_LOOK_SECONDS)


async def _deadlocks(stage: Stage, over: asyncio.Event) -> int:
    """Count them; a database that crashed counts from 0 again."""
    found, before = 0, 0
    while not over.is_set():
        with suppress(*DATABASE_AWAY):
            now = int(await stage.value(_DEADLOCKS))
            found, before = found + max(0, now - before), now
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await over.wait()
    return found
