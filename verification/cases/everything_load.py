"""The callers of case 10: they create jobs and batches at an even pace, and repeat, cancel and watch some."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from shared.gen.baton.v1 import job_control_pb2 as pb
from verification.peers.batches import Batches
from verification.peers.control import Refused
from verification.stage.stage import Stage
from verification.unmet import require

CREATING_SHARE = 0.95
"""Of the time; so that creating goes on during nearly all kills."""
TOGETHER = (20, 50)
"""Jobs of one call, where they are gathered."""
CALLS_AT_ONCE = 16
WATCHES_AT_ONCE = 20
PATIENCE_SECONDS = 180.0

_STEP_SECONDS = 0.05
_AWAY_CODES = frozenset({1, 4, 14})
"""CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE of one job in a call."""
_ENDED = frozenset({"JOB_ALREADY_CANCELLED", "JOB_NOT_CANCELLABLE"})

_GATHERED_KINDS = {"quick": 84, "steps": 7, "fails once": 4, "streams": 2, "long": 3}
_SINGLE_KINDS = {"quick": 50, "cancelled": 20, "repeated": 20, "watched": 10}
_BATCH_SHARE = 0.15
"""Of the calls that create jobs together."""
_SINGLE_SHARE = 0.08
"""Of the jobs; each is a call of its own."""


class Load:
    """All chance comes from the stage.

    Attributes:
        acknowledged: The ids of all jobs that were asked for by themselves.
        batched: Jobs that are items of batches.
        asked_to_cancel: Of those that need not succeed.
    """

    def __init__(self, stage: Stage, *, jobs: int, seconds: float) -> None:
        self.acknowledged: set[str] = set()
        self.asked_to_cancel: set[str] = set()
        self.batched = 0
        self._stage = stage
        self._jobs = jobs
        self._seconds = seconds * CREATING_SHARE
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)
        self._watches = asyncio.Semaphore(WATCHES_AT_ONCE)

    @property
    def created(self) -> int:
        """How many jobs there are by now."""
        return len(self.acknowledged) + self.batched

    async def run(self) -> None:
        """Create all jobs, and wait until every call has its answer and every watch its end."""
        begin, planned = self._stage.history.now(), 0
        async with asyncio.TaskGroup() as group:
            while planned < self._jobs:
                due = self._jobs * min(1.0, (self._stage.history.now() - begin) / self._seconds)
                while planned < due:
                    count = min(self._drawn_count(), self._jobs - planned)
                    planned += count
                    await self._calls.acquire()
                    group.create_task(self._create(count))
                await asyncio.sleep(_STEP_SECONDS)

    def _drawn_count(self) -> int:
        """How many jobs the next call creates; single ones are rare by jobs, and most by calls."""
        gathered = self._stage.random.randint(*TOGETHER)
        mean = sum(TOGETHER) / 2
        single = _SINGLE_SHARE * mean / (1 - _SINGLE_SHARE + _SINGLE_SHARE * mean)
        return 1 if self._stage.random.random() < single else gathered

    async def _create(self, count: int) -> None:
        try:
            if count > 1:
                as_batch = self._stage.random.random() < _BATCH_SHARE
                await (self._create_batch(count) if as_batch else self._create_together(count))
                return
            kind = self._drawn(_SINGLE_KINDS)
            request = self._request(kind)
            job_id = await self._created(request)
        finally:
            self._calls.release()
        await self._follow(kind, request, job_id)

    async def _create_together(self, count: int) -> None:
        requests = [self._request(self._drawn(_GATHERED_KINDS)) for _ in range(count)]
        while requests:
            answer = await self._stage.control.insist(
                "CreateJobs", pb.CreateJobsRequest(jobs=requests), seconds=PATIENCE_SECONDS
            )
            self.acknowledged |= {
                each.created.job.job_id for each in answer.outcomes if each.HasField("created")
            }
            requests = [
                request
                for request, outcome in zip(requests, answer.outcomes, strict=True)
                if _is_to_be_repeated(outcome)
            ]

    async def _create_batch(self, count: int) -> None:
        work = [self._stage.work(**self._order(self._drawn(_GATHERED_KINDS))) for _ in range(count)]
        await Batches(self._stage.control).create(work, seconds=PATIENCE_SECONDS)
        self.batched += count

    async def _created(self, request: pb.CreateJobRequest) -> str:
        answer = await self._stage.control.insist("CreateJob", request, seconds=PATIENCE_SECONDS)
        job_id = str(answer.job.job_id)
        self.acknowledged.add(job_id)
        return job_id

    async def _follow(self, kind: str, request: pb.CreateJobRequest, job_id: str) -> None:
        if kind == "cancelled":
            self.asked_to_cancel.add(job_id)
            await asyncio.sleep(self._stage.random.uniform(0, 3))
            await self._cancel(job_id)
        elif kind == "repeated":
            await self._created(request)
            other = pb.CreateJobRequest()
            other.CopyFrom(request)
            other.labels["other"] = "body"
            with suppress(Refused):
                await self._stage.control.call("CreateJob", other)
        elif kind == "watched" and not self._watches.locked():
            async with self._watches:
                await self._stage.control.watch_to_end(job_id, seconds=2 * PATIENCE_SECONDS)

    async def _cancel(self, job_id: str) -> None:
        try:
            await self._stage.control.insist(
                "CancelJob", pb.CancelJobRequest(job_id=job_id), seconds=PATIENCE_SECONDS
            )
        except Refused as refused:
            if refused.reason not in _ENDED:
                raise
        await self._stage.control.get(job_id)

    def _request(self, kind: str) -> pb.CreateJobRequest:
        return self._stage.control.creation(self._stage.work(**self._order(kind)))

    def _order(self, kind: str) -> Mapping[str, Any]:
        chance = self._stage.random
        match kind:
            case "steps":
                return {"items": 5, "duration_seconds": chance.uniform(0.2, 1)}
            case "fails once":
                return {"fail_attempts": [1]}
            case "streams" | "watched":
                return {"items": 4, "duration_seconds": chance.uniform(0, 1), "pieces": chance.randint(5, 20)}
            case "long" | "cancelled":
                return {"items": 4, "duration_seconds": chance.uniform(2, 6)}
            case _:
                return {}

    def _drawn(self, kinds: Mapping[str, int]) -> str:
        return self._stage.random.choices(list(kinds), weights=list(kinds.values()))[0]


def _is_to_be_repeated(outcome: pb.CreateJobOutcome) -> bool:
    """Whether a job of a call has not been created, and may be if the call is repeated.

    Raises:
        Unmet: It never will be.
    """
    if outcome.HasField("created"):
        return False
    require(outcome.error.status_code in _AWAY_CODES, f"a job was refused: {outcome.error}")
    return True
