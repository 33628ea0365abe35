"""GetJob shows what was tried for a job, and where its time has gone."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from job_api.client import AsyncClient, Client, ShownJobView
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId, Owner
from shared.domain.jobs import JobError
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support import storage
from tests.support.control_service import Control, bearing
from tests.support.database_time import DatabaseTime

FAILED = AttemptEnd(AttemptOutcome.FAILED, storage.RETRYABLE)
GIVEN_BACK = AttemptEnd(AttemptOutcome.GIVEN_BACK)
SUCCEEDED = AttemptEnd(AttemptOutcome.SUCCEEDED)

TOLERANCE_SECONDS = 3.0
"""The time goes on by itself while a test moves it."""


async def shown(control: Control, job_id: JobId, metadata: object = ()) -> pb.GetJobResponse:
    response: pb.GetJobResponse = await control.stub.GetJob(
        pb.GetJobRequest(job_id=str(job_id)), metadata=metadata
    )
    return response


def split(timings: job_pb2.JobTimings) -> list[timedelta]:
    return [
        each.ToTimedelta()
        for each in (timings.waiting, timings.running, timings.between_attempts, timings.total)
    ]


def require_split(timings: job_pb2.JobTimings, *seconds: float) -> None:
    """Waiting, running, between attempts and in all."""
    parts = split(timings)
    assert sum(parts[:3], timedelta(0)) == parts[3]
    assert [each.total_seconds() for each in parts] == pytest.approx(seconds, abs=TOLERANCE_SECONDS)


async def a_moved_life(control: Control) -> JobId:
    """A job that waited 1,000 s, failed after 20 s, waited 300 s for its next attempt, and ran 20 s more."""
    database_time = DatabaseTime(control.transactions)
    await database_time.make_movable()
    job_id = await storage.a_job(control.transactions, owner=Owner("local"))
    await database_time.jump(timedelta(seconds=1_000))
    lease = await storage.a_lease(control.transactions, job_id=job_id)
    await database_time.jump(timedelta(seconds=20))
    await storage.end_attempt(control.transactions, lease.ref, FAILED)
    await database_time.jump(timedelta(seconds=300))
    lease = await storage.a_lease(control.transactions, job_id=job_id, attempt=2)
    await database_time.jump(timedelta(seconds=20))
    require_split((await shown(control, job_id)).timings, 1_000, 40, 300, 1_340)
    await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
    await database_time.jump(timedelta(seconds=50))
    return job_id


async def test_a_job_shows_its_attempts_and_where_its_time_has_gone(control: Control) -> None:
    told = await shown(control, await a_moved_life(control))

    require_split(told.timings, 1_000, 40, 300, 1_340)
    assert told.timings.total.ToTimedelta() == (
        told.job.finish_time.ToDatetime() - told.job.create_time.ToDatetime()
    )
    assert [(each.number, each.outcome) for each in told.attempts] == [
        (1, job_pb2.ATTEMPT_OUTCOME_FAILED),
        (2, job_pb2.ATTEMPT_OUTCOME_SUCCEEDED),
    ]
    assert told.attempts[0].error.code == storage.RETRYABLE.code
    listed = await control.stub.ListAttempts(pb.ListAttemptsRequest(job_id=told.job.job_id))
    assert list(listed.attempts) == list(told.attempts)


async def test_a_job_that_waits_has_waited_all_its_time(control: Control) -> None:
    job_id = await storage.a_job(control.transactions, owner=Owner("local"))
    told = await shown(control, job_id)
    assert not told.attempts
    waited = told.timings.waiting.ToTimedelta()
    assert split(told.timings) == [waited, timedelta(0), timedelta(0), waited]
    await control.stub.CancelJob(pb.CancelJobRequest(job_id=str(job_id)))
    told = await shown(control, job_id)
    lived = told.job.finish_time.ToDatetime() - told.job.create_time.ToDatetime()
    assert split(told.timings) == [lived, timedelta(0), timedelta(0), lived]


async def test_a_job_shows_its_newest_hundred_attempts_the_newest_last(control: Control) -> None:
    job_id = await storage.a_job(control.transactions, owner=Owner("local"))
    for attempt in range(1, 104):
        lease = await storage.a_lease(control.transactions, job_id=job_id, attempt=attempt)
        await storage.end_attempt(control.transactions, lease.ref, GIVEN_BACK)
    await storage.a_lease(control.transactions, job_id=job_id, attempt=104)
    told = await shown(control, job_id)
    assert [each.number for each in told.attempts] == list(range(5, 105))
    assert not told.attempts[-1].HasField("end_time")
    assert sum(split(told.timings)[:3], timedelta(0)) == told.timings.total.ToTimedelta()


async def test_what_happened_inside_of_an_attempt_is_shown_to_those_who_see_all(
    guarded_control: Control,
) -> None:
    job_id = await storage.a_job(guarded_control.transactions, owner=Owner("ada"))
    lease = await storage.a_lease(guarded_control.transactions, job_id=job_id)
    error = JobError("PROVIDER_TIMEOUT", "the provider took too long", "10.0.0.7 was silent")
    await storage.end_attempt(
        guarded_control.transactions, lease.ref, AttemptEnd(AttemptOutcome.FAILED, error)
    )
    for scope, inside in (("jobs.read", ""), ("jobs.admin", "10.0.0.7 was silent")):
        caller = bearing("ada", "jobs.read", scope)
        (attempt,) = (await shown(guarded_control, job_id, caller)).attempts
        assert (attempt.error.message, attempt.error.internal_message) == (error.message, inside)


async def test_both_clients_show_attempts_and_times(control: Control) -> None:
    job_id = await a_moved_life(control)

    def blocking() -> ShownJobView:
        with Client(control.opened.address) as client:
            return client.get(job_id)

    async with AsyncClient(control.opened.address) as client:
        view = await client.get(job_id)
        assert list(view.attempts) == [each async for each in client.attempts(job_id)]
    assert view.timings.total == view.timings.waiting + view.timings.running + view.timings.between_attempts
    assert [each.outcome for each in view.attempts] == [AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED]
    assert view.to_json()["timings"]["total"].endswith("s")
    assert await asyncio.to_thread(blocking) == view
