"""Heartbeats and cancels on the wire."""

from __future__ import annotations

from uuid import uuid4

import pytest

from shared.domain.jobs import JobState
from shared.gen.baton.v1 import execution_service_pb2 as pb
from tests.support.execution_service import execution_running
from verification.peers.executor import (
    failure,
    give_back,
    heartbeat,
    ref,
    stopped,
    success,
)

ACCEPTED = pb.REPORT_OUTCOME_ACCEPTED
CANCELLED_INSTEAD = pb.REPORT_OUTCOME_CANCELLED_INSTEAD

Servers = tuple[str, str, str]


@pytest.fixture
def servers(database_url: str, redis_url: str, redis_prefix: str) -> Servers:
    return database_url, redis_url, redis_prefix


async def test_a_cancel_is_pushed_until_it_is_seen_and_ends_the_job(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        incarnation = str(uuid4())
        executor = await execution.executor(credits=1, incarnation_id=incarnation)
        lease = await executor.lease()

        await execution.cancel(job_id)
        await executor.until(lambda: executor.cancels)
        assert executor.cancels == [ref(lease)]

        # It was not acknowledged, so it is pushed again after a reconnect.
        again = await execution.executor(incarnation_id=incarnation, held=[lease])
        await again.until(lambda: again.cancels)
        await again.send(cancels_seen=[ref(lease)])
        (answer,) = await again.report(stopped(lease))

        assert answer.outcome == ACCEPTED
        job = await execution.read(job_id)
        assert job.state is JobState.CANCELLED
        assert await execution.outcomes(job_id) == ["cancelled"]


async def test_a_cancel_of_which_no_hint_told_comes_with_the_answer_to_a_heartbeat(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()
        async with execution.transactions.begin() as transaction:
            await transaction.leases.request_cancels([job_id])

        await executor.send(heartbeats=[heartbeat(lease)], heartbeat_number=1)
        await executor.until(lambda: executor.heartbeats_recorded == 1)

        assert executor.cancels == [ref(lease)]


async def test_that_a_cancel_was_seen_is_recorded_once(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()
        await execution.cancel(job_id)
        await executor.until(lambda: executor.cancels)

        await executor.send(cancels_seen=[ref(lease)])
        await executor.send(cancels_seen=[ref(lease)])
        await execution.until_event(job_id, "cancel_seen")
        await executor.send(heartbeats=[heartbeat(lease)], heartbeat_number=1)
        await executor.until(lambda: executor.heartbeats_recorded == 1)

        kinds = [each.kind for each in await execution.events(job_id)]
        assert kinds == ["created", "started", "cancel_requested", "cancel_seen"]


async def test_who_has_stopped_for_a_cancel_has_seen_it(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()
        await execution.cancel(job_id)

        await executor.report(stopped(lease))

        events = await execution.events(job_id)
        ending = ["cancel_requested", "cancel_seen", "attempt_ended", "cancelled"]
        assert [each.kind for each in events[2:]] == ending
        assert [each.number for each in events] == [1, 2, 3, 4, 5, 6]
        cancellation = (await execution.read(job_id)).cancellation
        assert cancellation is not None
        assert cancellation.seen_time is not None


async def test_a_stop_does_not_overtake_that_its_cancel_was_seen(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        jobs = [await execution.job() for _ in range(5)]
        executor = await execution.executor(credits=len(jobs))
        leases = await executor.leases_when(len(jobs))
        for job_id in jobs:
            await execution.cancel(job_id)
        for lease in leases:
            await executor.send(cancels_seen=[ref(lease)], reports=[stopped(lease)])
        await executor.until(lambda: len(executor.answers) == len(leases))

        for job_id in jobs:
            kinds = [each.kind for each in await execution.events(job_id)]
            assert kinds == [
                "created",
                "started",
                "cancel_requested",
                "cancel_seen",
                "attempt_ended",
                "cancelled",
            ]


@pytest.mark.parametrize(
    "report",
    [success, failure, lambda lease: give_back(lease, pb.GIVE_BACK_REASON_DRAINING)],
    ids=["success", "failure", "give_back"],
)
async def test_once_a_cancel_is_requested_every_end_is_cancelled(servers: Servers, report: object) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()
        await execution.cancel(job_id)
        assert callable(report)

        (answer,) = await executor.report(report(lease))

        assert answer.outcome == CANCELLED_INSTEAD
        assert (await execution.read(job_id)).state is JobState.CANCELLED
        assert await execution.outcomes(job_id) == ["cancelled"]
        assert await execution.rows("select * from synthetic_results") == []


async def test_heartbeats_extend_the_lease_and_carry_progress(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()
        (before,) = await execution.rows("select accepted, heartbeat_time from leases")

        await executor.send(heartbeats=[heartbeat(lease, progress=40, progress_message="half")])
        await executor.send(heartbeats=[heartbeat(lease, progress=41)], heartbeat_number=2)
        await executor.until(lambda: executor.heartbeats_recorded == 2)

        (after,) = await execution.rows("select accepted, heartbeat_time from leases")
        assert (before.accepted, after.accepted) == (False, True)
        assert after.heartbeat_time > before.heartbeat_time
        job = await execution.read(job_id)
        assert (job.progress, job.progress_message) == (41, "half")


async def test_the_claim_of_a_stream_entry_that_is_there_twice_grants_one_lease(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        await execution.execute("update outbox set state = 'pending' where aggregate_id = :id", id=job_id)
        await execution.dispatch()
        executor = await execution.executor(credits=2)
        await executor.lease()
        other_job = await execution.job()

        assert [each.job_id for each in await executor.leases_when(2)] == [str(job_id), str(other_job)]
