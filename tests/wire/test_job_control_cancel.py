from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import grpc
import pytest

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId
from shared.domain.jobs import JobState
from shared.domain.leases import LeaseRef
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.streams.channels import Channel
from shared.streams.connection import open_redis
from shared.streams.wake_ups import CancelsRequested, WakeUps
from tests.support import storage
from tests.support.control_service import Control, control_running, refused


async def cancel(control: Control, job_id: object) -> job_pb2.Job:
    response: pb.CancelJobResponse = await control.stub.CancelJob(pb.CancelJobRequest(job_id=str(job_id)))
    return response.job


async def refusal_of(control: Control, job_id: object) -> tuple[grpc.StatusCode, str]:
    refusal = await refused(control.stub.CancelJob(pb.CancelJobRequest(job_id=str(job_id))))
    assert refusal.details["google.rpc.PreconditionFailure"].violations[0].type == refusal.reason
    assert refusal.metadata == {"job_id": str(job_id)}
    return refusal.code, refusal.reason


async def succeed(control: Control, lease: LeaseRef) -> None:
    await storage.end_attempt(control.transactions, lease, AttemptEnd(AttemptOutcome.SUCCEEDED))


async def test_a_queued_job_is_cancelled_at_once(control: Control) -> None:
    job = await control.create()
    cancelled = await cancel(control, job.job_id)
    assert cancelled.state == job_pb2.JOB_STATE_CANCELLED
    assert cancelled.HasField("finish_time")
    assert cancelled.cancellation.HasField("stop_time")
    assert await control.get(job.job_id) == cancelled
    assert await refusal_of(control, job.job_id) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "JOB_ALREADY_CANCELLED",
    )


async def test_a_job_between_attempts_is_cancelled_at_once(control: Control) -> None:
    lease = await storage.a_lease(control.transactions)
    end = AttemptEnd(AttemptOutcome.FAILED, storage.RETRYABLE)
    await storage.end_attempt(control.transactions, lease.ref, end)
    cancelled = await cancel(control, lease.ref.job_id)
    assert (cancelled.state, cancelled.attempt) == (job_pb2.JOB_STATE_CANCELLED, 1)


async def test_a_leased_job_is_asked_to_stop_and_asking_again_is_the_same(control: Control) -> None:
    lease = await storage.a_lease(control.transactions)
    first = await cancel(control, lease.ref.job_id)
    assert first.state == job_pb2.JOB_STATE_RUNNING
    assert first.cancellation.HasField("request_time")
    assert not first.cancellation.HasField("seen_time")
    again = await cancel(control, lease.ref.job_id)
    assert again.cancellation == first.cancellation
    assert again.last_event_number == first.last_event_number

    async with control.transactions.begin() as transaction:
        await transaction.leases.record_cancels_seen([lease.ref])
    assert (await cancel(control, lease.ref.job_id)).cancellation.HasField("seen_time")
    await succeed_is_cancelled(control, lease.ref)


async def succeed_is_cancelled(control: Control, lease: LeaseRef) -> None:
    async with control.transactions.begin() as transaction:
        held = (await transaction.attempts.lock([lease]))[lease]
        assert held.standing.cancel_requested
    await storage.end_attempt(control.transactions, lease, AttemptEnd(AttemptOutcome.CANCELLED))
    shown = await control.get(lease.job_id)
    assert shown.state == job_pb2.JOB_STATE_CANCELLED
    assert shown.cancellation.HasField("stop_time")
    assert not shown.cancellation.forced


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED])
async def test_a_job_that_has_ended_otherwise_is_not_cancellable(control: Control, state: JobState) -> None:
    made = await storage.job_in(control.transactions, state)
    assert await refusal_of(control, made) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "JOB_NOT_CANCELLABLE",
    )


async def test_a_definition_may_forbid_it_while_an_attempt_runs(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with control_running(
        database_url, redis_url, redis_prefix, job_modules=("tests.support.stubborn",)
    ) as control:
        waiting, leased = [await control.create("stubborn") for _ in range(2)]
        lease = await storage.a_lease(control.transactions, job_id=JobId(UUID(leased.job_id)))
        assert (await cancel(control, waiting.job_id)).state == job_pb2.JOB_STATE_CANCELLED
        assert await refusal_of(control, leased.job_id) == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "JOB_NOT_CANCELLABLE",
        )
        await succeed(control, lease.ref)
        assert (await control.get(leased.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def test_workers_hear_of_the_cancel_of_a_leased_job(
    control: Control, redis_url: str, redis_prefix: str
) -> None:
    lease = await storage.a_lease(control.transactions)
    async with open_redis(redis_url) as redis:
        wake_ups = WakeUps(redis, prefix=redis_prefix)
        async with wake_ups.listen(Channel.CANCELS_REQUESTED) as hints:
            await cancel(control, lease.ref.job_id)
            assert await anext(hints) == CancelsRequested(frozenset({lease.ref.job_id}))


async def test_a_cancel_and_a_success_that_race_agree_on_one_end(control: Control) -> None:
    """Whichever comes first at the row wins, and no cancel that was answered OK ends as a success."""
    seen: Counter[str] = Counter()
    for _ in range(20):
        lease = await storage.a_lease(control.transactions)

        async def report(lease: LeaseRef = lease.ref) -> None:
            async with control.transactions.begin() as transaction:
                held = (await transaction.attempts.lock([lease]))[lease]
                cancelled = held.standing.cancel_requested
                outcome = AttemptOutcome.CANCELLED if cancelled else AttemptOutcome.SUCCEEDED
                ending = await storage.ending(transaction, lease, AttemptEnd(outcome))
                assert await transaction.states.end_attempts([ending])

        answers = await asyncio.gather(cancel(control, lease.ref.job_id), report(), return_exceptions=True)
        state = (await control.get(lease.ref.job_id)).state
        accepted = isinstance(answers[0], job_pb2.Job)
        assert state == (job_pb2.JOB_STATE_CANCELLED if accepted else job_pb2.JOB_STATE_SUCCEEDED)
        seen[job_pb2.JobState.Name(state)] += 1
    assert seen.total() == 20
