"""A JobControl with limits for owners, and what it counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import UUID

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import storage
from tests.support.control_service import Control, Refusal, control_running, refused
from tests.support.selected_jobs import rows

FAILED = AttemptEnd(AttemptOutcome.FAILED, storage.FINAL)
SYNTHETIC = pb.CreateJobRequest(job_type="synthetic", input=b"{}")

Limited = Callable[..., AbstractAsyncContextManager[Control]]


def limited_on(database_url: str, redis_url: str, redis_prefix: str) -> Limited:
    """Make replicas with limits, which all stand on one database."""

    @asynccontextmanager
    async def running(*, secret: str | None = None, **limits: int) -> AsyncIterator[Control]:
        settings: dict[str, Any] = {"owner_limits": limits, "token_secret": secret}
        async with control_running(database_url, redis_url, redis_prefix, **settings) as control:
            yield control

    return running


def keyed(key: str) -> pb.CreateJobRequest:
    return pb.CreateJobRequest(job_type="synthetic", input=b"{}", idempotency_key=key)


async def refusal(control: Control, request: pb.CreateJobRequest = SYNTHETIC) -> Refusal:
    return await refused(control.stub.CreateJob(request))


async def jobs(control: Control) -> int:
    return int((await rows(control, "select count(*) as n from jobs"))[0].n)


async def counted(control: Control) -> list[int]:
    """What the days of owners say, oldest first."""
    return [each.jobs for each in await rows(control, "select jobs from owner_days order by day, owner")]


async def run(control: Control, job_id: str, end: AttemptEnd = FAILED) -> None:
    lease = await storage.a_lease(control.transactions, job_id=JobId(UUID(job_id)))
    await storage.end_attempt(control.transactions, lease.ref, end)
