"""CancelJobs and RetryJobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from job_api.operations import cancel_jobs, retry_jobs, selected_jobs
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.jobs import JobState
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.streams.channels import Channel
from shared.streams.connection import open_redis
from shared.streams.wake_ups import CancelsRequested, WakeUps
from tests.support import storage
from tests.support.control_service import Control, control_running, listed_ids
from tests.support.selected_jobs import REQUESTS, SYNTHETIC, call, count, rows


async def states(control: Control) -> Counter[str]:
    jobs = [await control.get(each) for each in await listed_ids(control)]
    return Counter(job_pb2.JobState.Name(each.state).removeprefix("JOB_STATE_") for each in jobs)


async def one_in_each_state(control: Control) -> dict[JobState, JobId]:
    return {each: await storage.job_in(control.transactions, each) for each in JobState}


async def test_waiting_jobs_are_cancelled_and_leased_ones_asked_to_stop(control: Control) -> None:
    made = await one_in_each_state(control)
    lease = await storage.a_lease(control.transactions)
    failed = AttemptEnd(AttemptOutcome.FAILED, storage.RETRYABLE)
    await storage.end_attempt(control.transactions, lease.ref, failed)
    before = await rows(control, "select * from jobs where finish_time is not null order by job_id")

    assert await count(control, "CancelJobs", filter=SYNTHETIC, dry_run=True) == 3
    assert await states(control) == {**dict.fromkeys(JobState, 1), JobState.RUNNING: 2}
    assert await count(control, "CancelJobs", filter=SYNTHETIC) == 3

    for job_id in (made[JobState.QUEUED], lease.ref.job_id):
        assert (await control.get(job_id)).state == job_pb2.JOB_STATE_CANCELLED
    leased = await control.get(made[JobState.RUNNING])
    assert leased.state == job_pb2.JOB_STATE_RUNNING
    assert leased.cancellation.HasField("request_time")
    kinds = await rows(
        control,
        "select kind from job_events where job_id = :job_id order by number desc limit 1",
        job_id=made[JobState.RUNNING],
    )
    assert kinds[0].kind == "cancel_requested"
    ended = tuple(made[each] for each in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED))
    after = await rows(
        control, "select * from jobs where job_id = any(:ended) order by job_id", ended=list(ended)
    )
    assert after == before
    assert await count(control, "CancelJobs", filter=SYNTHETIC) == 0
    assert (await control.get(made[JobState.RUNNING])) == leased


async def test_failed_and_cancelled_jobs_run_again_once(control: Control) -> None:
    made = await one_in_each_state(control)
    before = await rows(control, "select * from jobs order by job_id")

    assert await count(control, "RetryJobs", filter=SYNTHETIC, dry_run=True) == 2
    assert len(await listed_ids(control)) == 5
    assert await count(control, "RetryJobs", filter=SYNTHETIC) == 2
    assert await count(control, "RetryJobs", filter=SYNTHETIC) == 0
    assert await count(control, "RetryJobs", filter=SYNTHETIC, dry_run=True) == 0

    new = await rows(control, "select * from jobs where origin_job_id is not null")
    assert {each.origin_job_id for each in new} == {made[JobState.FAILED], made[JobState.CANCELLED]}
    assert {(each.state, each.event_count, each.owner) for each in new} == {("QUEUED", 1, "owner")}
    assert await rows(control, "select * from jobs where origin_job_id is null order by job_id") == before


async def test_calls_that_race_run_each_job_again_once_and_cancel_each_once(control: Control) -> None:
    made = [await storage.job_in(control.transactions, JobState.FAILED) for _ in range(10)]

    single = pb.RetryJobRequest(job_id=str(made[0]), idempotency_key="the-first-one")
    told = await asyncio.gather(
        control.stub.RetryJob(single), *(count(control, "RetryJobs", filter=SYNTHETIC) for _ in range(8))
    )

    origins = Counter(
        each.origin_job_id
        for each in await rows(control, "select origin_job_id from jobs where origin_job_id is not null")
    )
    assert set(origins) == set(made)
    assert sum(told[1:]) + 1 == origins.total()
    assert all(number == 1 for job_id, number in origins.items() if job_id != made[0])
    cancelled = await asyncio.gather(*(count(control, "CancelJobs", filter=SYNTHETIC) for _ in range(8)))
    assert sum(cancelled) == origins.total()


async def test_a_call_goes_in_bounded_steps_and_its_token_leads_to_the_rest(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel_jobs, "JOBS_PER_STEP_MAX", 3)
    monkeypatch.setattr(retry_jobs, "JOBS_PER_STEP_MAX", 3)
    monkeypatch.setattr(selected_jobs, "STEPS_PER_CALL_MAX", 2)
    monkeypatch.setattr(selected_jobs, "ROWS_COUNTED_MAX", 6)
    made = [storage.new_job() for _ in range(13)]
    async with control.transactions.begin() as transaction:
        await transaction.creation.create_jobs(made)

    for method in REQUESTS:
        for dry_run in (True, False):
            counts, token = list[int](), ""
            while not counts or token:
                response = await call(control, method, filter=SYNTHETIC, dry_run=dry_run, page_token=token)
                counts.append(response.count)
                token = response.next_page_token
            assert counts == [6, 6, 1], (method, dry_run)


async def test_a_step_looks_at_few_jobs_also_where_none_of_them_fit(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selected_jobs, "ROWS_PER_STEP_MAX", 2)
    monkeypatch.setattr(selected_jobs, "STEPS_PER_CALL_MAX", 1)
    monkeypatch.setattr(selected_jobs, "ROWS_COUNTED_MAX", 2)
    for labels in ({"night": "bad"}, {}, {}, {}, {"night": "bad"}, {}, {}):
        await control.create(labels=labels)
    bad = pb.JobFilter(labels={"night": "bad"})
    for dry_run in (True, False):
        counts, token = list[int](), ""
        while not counts or token:
            response = await call(control, "CancelJobs", filter=bad, dry_run=dry_run, page_token=token)
            counts.append(response.count)
            token = response.next_page_token
        assert counts == [0, 1, 0, 1]


async def test_a_job_that_fails_again_meanwhile_is_not_met_again(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_jobs, "JOBS_PER_STEP_MAX", 1)
    monkeypatch.setattr(selected_jobs, "STEPS_PER_CALL_MAX", 1)
    for _ in range(3):
        await storage.job_in(control.transactions, JobState.FAILED)
    told, token = 0, ""
    while True:
        response = await call(control, "RetryJobs", filter=SYNTHETIC, page_token=token)
        told += response.count
        for each in await rows(control, "select job_id from jobs where state = 'QUEUED'"):
            lease = await storage.a_lease(control.transactions, job_id=each.job_id)
            final = AttemptEnd(AttemptOutcome.FAILED, storage.FINAL)
            await storage.end_attempt(control.transactions, lease.ref, final)
        token = response.next_page_token
        if not token:
            break
    assert told == 3
    assert await count(control, "RetryJobs", filter=SYNTHETIC, dry_run=True) == 3


async def test_what_single_calls_would_refuse_is_passed_over(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with control_running(
        database_url, redis_url, redis_prefix, job_modules=("tests.support.stubborn",)
    ) as control:
        waiting, leased = [await control.create("stubborn") for _ in range(2)]
        await storage.a_lease(control.transactions, job_id=JobId(UUID(leased.job_id)))
        stubborn = pb.JobFilter(job_type="stubborn")
        assert await count(control, "CancelJobs", filter=stubborn, dry_run=True) == 1
        assert await count(control, "CancelJobs", filter=stubborn) == 1
        assert (await control.get(waiting.job_id)).state == job_pb2.JOB_STATE_CANCELLED
        assert not (await control.get(leased.job_id)).HasField("cancellation")

        expired = await storage.job_in(control.transactions, JobState.FAILED)
        await rows(control, "delete from snapshots where job_id = :job_id returning 1", job_id=expired)
        older = await storage.a_job(control.transactions, input_schema_version=7)
        await control.stub.CancelJob(pb.CancelJobRequest(job_id=str(older)))
        for dry_run in (True, False):
            assert await count(control, "RetryJobs", filter=SYNTHETIC, dry_run=dry_run) == 0


async def test_workers_and_watchers_hear_of_it(control: Control, redis_url: str, redis_prefix: str) -> None:
    lease = await storage.a_lease(control.transactions)
    waiting = await control.create()
    watch = control.watch(waiting.job_id)
    assert (await watch.read()).event.number == 1
    async with open_redis(redis_url) as redis:
        wake_ups = WakeUps(redis, prefix=redis_prefix)
        async with wake_ups.listen(Channel.CANCELS_REQUESTED) as hints:
            assert await count(control, "CancelJobs", filter=SYNTHETIC) == 2
            assert await anext(hints) == CancelsRequested(frozenset({lease.ref.job_id}))
    assert (await watch.read()).event.kind == job_pb2.JOB_EVENT_KIND_CANCELLED


@pytest.mark.parametrize("method", list(REQUESTS))
async def test_only_jobs_that_fit_are_touched(control: Control, method: str) -> None:
    await control.create(labels={"night": "bad"}, target=job_pb2.Target(type="course", id="7"))
    await control.create()
    if method == "RetryJobs":
        assert await count(control, "CancelJobs", filter=SYNTHETIC) == 2
    for job_filter, expected in (
        (pb.JobFilter(labels={"night": "bad"}), 1),
        (pb.JobFilter(target=job_pb2.Target(type="course")), 1),
        (pb.JobFilter(states=[job_pb2.JOB_STATE_SUCCEEDED]), 0),
        (pb.JobFilter(job_type="document_import"), 0),
        (pb.JobFilter(queue="drill"), 2),
        (pb.JobFilter(create_time_from=Timestamp(seconds=4_000_000_000)), 0),
    ):
        assert await count(control, method, filter=job_filter, dry_run=True) == expected
    assert await count(control, method, filter=pb.JobFilter(labels={"night": "bad"})) == 1
    assert await count(control, method, filter=SYNTHETIC, dry_run=True) == 1
