"""Both clients on the real service, with a database and with executors that do as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from job_api.client import (
    AsyncClient,
    Client,
    JobCancelled,
    JobEvent,
    JobFailed,
    JobId,
    JobResult,
    JobState,
    JobUnfinished,
    errors,
)
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.jobs import Artifact
from tests.support import storage
from tests.support.control_service import Control, control_running

KEY = "order-4711"
SUCCEEDED = AttemptEnd(AttemptOutcome.SUCCEEDED)
FAILED = AttemptEnd(AttemptOutcome.FAILED, storage.FINAL)

Run = Callable[..., Coroutine[None, None, JobResult]]


async def run_blocking(address: str, **options: Any) -> JobResult:
    def run() -> JobResult:
        with Client(address) as client:
            return client.run("synthetic", {"items": 1}, idempotency_key=KEY, **options)

    return await asyncio.to_thread(run)


async def run_async(address: str, **options: Any) -> JobResult:
    async with AsyncClient(address) as client:
        return await client.run("synthetic", {"items": 1}, idempotency_key=KEY, **options)


both_clients = pytest.mark.parametrize("run", [run_async, run_blocking], ids=["async", "blocking"])


async def job_of_the_run(control: Control) -> JobId:
    """Create the job that a run under the key will find."""
    async with AsyncClient(control.opened.address) as client:
        job = await client.create_job("synthetic", {"items": 1}, idempotency_key=KEY)
    return job.job_id


async def end(
    control: Control, job_id: JobId, attempt_end: AttemptEnd, artifacts: Sequence[Artifact] = ()
) -> None:
    """Run the job to its end, as a worker does."""
    lease = await storage.a_lease(control.transactions, job_id=job_id)
    async with control.transactions.begin() as transaction:
        ending = await storage.ending(transaction, lease.ref, attempt_end)
        assert await transaction.states.end_attempts([replace(ending, artifact_count=len(artifacts))])
        await transaction.artifacts.add({job_id: artifacts})


@both_clients
async def test_a_run_returns_what_its_job_made(control: Control, run: Run) -> None:
    job_id = await job_of_the_run(control)
    running = asyncio.create_task(run(control.opened.address))
    made = [Artifact("page", "p1", 1, b'{"text": "one"}'), Artifact("page", "p2", 2, b'{"text": "two"}')]
    await end(control, job_id, SUCCEEDED, made)
    result = await running

    assert (result.job.job_id, result.job.state) == (job_id, JobState.SUCCEEDED)
    assert result.output == {}
    assert [each.content for each in result.artifacts] == [{"text": "one"}, {"text": "two"}]


@both_clients
async def test_a_run_whose_job_fails_says_why(control: Control, run: Run) -> None:
    job_id = await job_of_the_run(control)
    running = asyncio.create_task(run(control.opened.address))
    await end(control, job_id, FAILED)

    with pytest.raises(JobFailed, match="INPUT_BROKEN: the file can't be read") as raised:
        await running
    assert (raised.value.job_id, raised.value.error.code) == (job_id, "INPUT_BROKEN")


@both_clients
async def test_a_run_whose_job_is_cancelled_says_so(control: Control, run: Run) -> None:
    job_id = await job_of_the_run(control)
    running = asyncio.create_task(run(control.opened.address))
    async with AsyncClient(control.opened.address) as client:
        await client.cancel(job_id)

    with pytest.raises(JobCancelled) as raised:
        await running
    assert raised.value.job.cancellation is not None


@both_clients
async def test_a_run_out_of_time_leaves_its_job_to_go_on_and_can_be_taken_up_again(
    control: Control, run: Run
) -> None:
    job_id = await job_of_the_run(control)
    with pytest.raises(JobUnfinished, match="it goes on") as raised:
        await run(control.opened.address, within=timedelta(seconds=0.3))
    assert raised.value.job.state is JobState.QUEUED

    await end(control, job_id, SUCCEEDED)
    assert (await run(control.opened.address)).job.job_id == job_id


async def test_a_run_that_is_refused_says_why_in_the_engines_words(control: Control) -> None:
    async with AsyncClient(control.opened.address) as client:
        with pytest.raises(errors.InvalidInput) as raised:
            await client.run("synthetic", {"items": -1})
        with pytest.raises(errors.UnknownJobType):
            await client.run("no_such_type", {})

    assert [each.field for each in raised.value.violations] == ["input.items"]


async def test_a_watch_goes_on_over_a_restart_of_the_service_without_gap_or_repeat(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    servers = database_url, redis_url, redis_prefix
    seen, two_seen = list[JobEvent](), asyncio.Event()

    async def follow(address: str, job_id: JobId) -> None:
        async with AsyncClient(address) as client:
            async for update in client.watch(job_id):
                assert isinstance(update.what, JobEvent)
                seen.append(update.what)
                if len(seen) == 2:
                    two_seen.set()

    async with control_running(*servers) as control:
        address = control.opened.address
        job_id = await job_of_the_run(control)
        following = asyncio.create_task(follow(address, job_id))
        lease = await storage.a_lease(control.transactions, job_id=job_id)
        await two_seen.wait()
    async with storage.opened(database_url) as transactions:
        await storage.end_attempt(
            transactions, lease.ref, AttemptEnd(AttemptOutcome.FAILED, storage.RETRYABLE)
        )
    async with control_running(*servers, control_address=address) as control, AsyncClient(address) as client:
        ended = await client.cancel(job_id)
        async with asyncio.timeout(20):
            await following

    assert [each.number for each in seen] == list(range(1, ended.last_event_number + 1))
    kinds = [each.kind.value for each in seen]
    assert kinds[:4] == ["created", "started", "attempt_ended", "retry_scheduled"]
    assert kinds[-1] == "cancelled"


@pytest.mark.parametrize("gathering", [False, True], ids=["each alone", "gathered"])
async def test_a_thousand_creations_at_once_are_a_thousand_jobs(control: Control, gathering: bool) -> None:
    address, within = control.opened.address, timedelta(seconds=60)
    async with AsyncClient(address, timeout=within, gathering=gathering) as client:
        jobs = await asyncio.gather(
            *(client.create_job("synthetic", {"items": 1}, labels={"n": str(n)}) for n in range(1_000))
        )
        listed = [job async for job in client.list(page_size=300)]

    assert [job.labels["n"] for job in jobs] == [str(n) for n in range(1_000)]
    assert len({job.job_id for job in listed}) == len(listed) == 1_000
    assert {job.job_id for job in listed} == {job.job_id for job in jobs}
