"""Both clients run jobs again and cancel them, one by one and all that fit, on the real service."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from job_api.client import AsyncClient, Client, JobId, JobState, Target, errors
from job_api.operations import cancel_jobs, retry_jobs, selected_jobs
from shared.gen.baton.v1 import job_pb2
from tests.support.control_service import Control


async def test_the_client_for_asyncio_goes_on_until_all_jobs_are_done(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    for operation in (cancel_jobs, retry_jobs):
        monkeypatch.setattr(operation, "JOBS_PER_STEP_MAX", 2)
    monkeypatch.setattr(selected_jobs, "STEPS_PER_CALL_MAX", 1)
    monkeypatch.setattr(selected_jobs, "ROWS_COUNTED_MAX", 2)
    target = job_pb2.Target(type="course", id="7")
    made = [await control.create(target=target, labels={"night": "bad"}) for _ in range(5)]

    async with AsyncClient(control.opened.address) as client:
        now = datetime.now(UTC)
        assert await client.cancel_jobs(dry_run=True, created_from=now + timedelta(hours=1)) == 0
        assert await client.cancel_jobs(dry_run=True, created_to=now + timedelta(hours=1)) == 5
        assert await client.cancel_jobs(target=Target("course", "7"), labels={"night": "bad"}) == 5
        assert await client.retry_jobs(dry_run=True, states=[JobState.CANCELLED]) == 5
        assert await client.retry_jobs(states=[JobState.CANCELLED]) == 5
        assert await client.retry_jobs(states=[JobState.CANCELLED]) == 0
        again = await client.retry(JobId(UUID(made[0].job_id)), idempotency_key="once-more-0001")
        replay = await client.retry(JobId(UUID(made[0].job_id)), idempotency_key="once-more-0001")
        assert (again.origin_job_id, again.replayed) == (JobId(UUID(made[0].job_id)), False)
        assert (replay.job_id, replay.replayed) == (again.job_id, True)
        with pytest.raises(errors.InvalidInput):
            await client.cancel_jobs()


async def test_the_blocking_client_does_the_same(control: Control) -> None:
    made = await control.create()

    def program() -> None:
        with Client(control.opened.address) as client:
            assert client.cancel_jobs(dry_run=True, queue="drill") == 1
            assert client.cancel_jobs(queue="drill") == 1
            first, second = [client.retry(JobId(UUID(made.job_id))) for _ in range(2)]
            assert first.job_id != second.job_id
            client.cancel(first.job_id)
            assert client.retry_jobs(dry_run=True, job_type="synthetic") == 1
            assert client.retry_jobs(job_type="synthetic") == 1
            with pytest.raises(errors.JobNotRetryable):
                client.retry(second.job_id)

    await asyncio.to_thread(program)
