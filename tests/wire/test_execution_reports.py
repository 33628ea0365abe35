"""Reports on the wire: what becomes durable, what is answered, and what is refused."""

from __future__ import annotations

from uuid import uuid4

import grpc
import pytest

from shared.domain.jobs import JobState
from shared.gen.baton.v1 import execution_service_pb2 as pb
from tests.support.control_service import refused
from tests.support.execution_service import execution_running
from verification.peers.executor import (
    failure,
    give_back,
    heartbeat,
    pieces,
    ref,
    stopped,
    success,
    success_of,
)

ACCEPTED = pb.REPORT_OUTCOME_ACCEPTED
RETRY_SCHEDULED = pb.REPORT_OUTCOME_RETRY_SCHEDULED
LEASE_LOST = pb.REPORT_OUTCOME_LEASE_LOST
REFUSED = pb.REPORT_OUTCOME_REFUSED

Servers = tuple[str, str, str]


@pytest.fixture
def servers(database_url: str, redis_url: str, redis_prefix: str) -> Servers:
    return database_url, redis_url, redis_prefix


async def test_a_result_is_committed_with_everything_that_belongs_to_it(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()
        await executor.send(heartbeats=[heartbeat(lease, progress=40, progress_message="3 of 7 items")])

        answer = await executor.succeed(lease, {"items": 7, "attempt": 1, "padding": "x"})

        assert answer.outcome == ACCEPTED
        assert answer.lease == ref(lease)
        job = await execution.read(job_id)
        assert (job.state, job.progress, job.attempt) == (JobState.SUCCEEDED, 100, 1)
        assert job.progress_message == ""
        assert [each.number for each in await execution.events(job_id)] == [1, 2, 3]
        (row,) = await execution.rows("select * from synthetic_results where job_id = :id", id=job_id)
        assert (row.items, row.attempt) == (7, 1)
        (attempt,) = await execution.rows("select output from attempts where job_id = :id", id=job_id)
        assert attempt.output == b'{"attempt":1,"items":7,"padding":"x"}'
        outbox = await execution.rows("select event_type from outbox where aggregate_id = :id", id=job_id)
        assert [row.event_type for row in outbox] == ["job.succeeded"]


async def test_the_same_report_gets_the_same_answer_again_also_elsewhere(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()

        answers = await executor.report(success(lease), success(lease))
        again = await executor.succeed(lease)
        unary = await execution.stub.ReportResult(
            pb.ReportResultRequest(lease=ref(lease), success=success_of(lease))
        )

        assert [each.outcome for each in (*answers, again, unary.answer)] == [ACCEPTED] * 4
        rows = await execution.rows("select * from synthetic_results where job_id = :id", id=job_id)
        assert len(rows) == 1


async def test_a_different_second_report_is_refused(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()

        first, second = await executor.report(success(lease), success(lease, {"items": 2, "attempt": 1}))
        third = await executor.fail(lease, "PROVIDER_TIMEOUT")

        assert (first.outcome, second.outcome, third.outcome) == (ACCEPTED, REFUSED, REFUSED)
        assert second.reason == "ALREADY_REPORTED"
        (row,) = await execution.rows("select items from synthetic_results where job_id = :id", id=job_id)
        assert row.items == 1


async def test_a_failure_that_may_pass_is_followed_by_another_attempt_that_is_told_of_it(
    servers: Servers,
) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=2)
        answer = await executor.fail(
            await executor.lease(), "PROVIDER_TIMEOUT", internal_message="at 10.0.0.1"
        )
        assert answer.outcome == RETRY_SCHEDULED
        assert (await execution.read(job_id)).state is JobState.RUNNING

        await execution.make_due(job_id)
        second = (await executor.leases_when(2))[1]

        assert (second.job_id, second.attempt) == (str(job_id), 2)
        assert (second.last_error.code, second.last_error.message) == (
            "PROVIDER_TIMEOUT",
            "it did not work",
        )
        assert second.last_error.internal_message == ""
        assert (await executor.succeed(second)).outcome == ACCEPTED
        assert await execution.outcomes(job_id) == ["failed", "succeeded"]


@pytest.mark.parametrize(
    ("report", "outcome", "state", "attempt"),
    [
        (lambda lease: failure(lease, "INPUT_BROKEN"), ACCEPTED, JobState.FAILED, "failed"),
        (lambda lease: failure(lease, permanent=True), ACCEPTED, JobState.FAILED, "failed"),
        (lambda lease: failure(lease, "TIMEOUT"), RETRY_SCHEDULED, JobState.RUNNING, "timed_out"),
        (
            lambda lease: give_back(lease, pb.GIVE_BACK_REASON_DRAINING),
            RETRY_SCHEDULED,
            JobState.RUNNING,
            "given_back",
        ),
        (
            lambda lease: give_back(lease, pb.GIVE_BACK_REASON_PROCESS_DIED),
            RETRY_SCHEDULED,
            JobState.RUNNING,
            "given_back",
        ),
        (
            lambda lease: give_back(lease, pb.GIVE_BACK_REASON_PROCESS_DIED, alone=True),
            RETRY_SCHEDULED,
            JobState.RUNNING,
            "lost",
        ),
        (stopped, RETRY_SCHEDULED, JobState.RUNNING, "given_back"),
    ],
)
async def test_what_follows_an_end_without_success(
    servers: Servers, report: object, outcome: int, state: JobState, attempt: str
) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        assert callable(report)

        (answer,) = await executor.report(report(await executor.lease()))

        assert answer.outcome == outcome
        assert (await execution.read(job_id)).state is state
        assert await execution.outcomes(job_id) == [attempt]


async def test_a_refused_job_is_offered_to_another_executor_only(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        refusing = await execution.executor(credits=2)
        await refusing.report(give_back(await refusing.lease(), pb.GIVE_BACK_REASON_REFUSED))

        # The refusing one looks first, and is refused; the row then goes back to the stream for the other.
        await execution.make_due(job_id)
        other = await execution.executor(credits=1)
        await execution.dispatch_until(lambda: bool(other.leases))

        assert [each.attempt for each in refusing.leases] == [1]


async def test_a_suspect_runs_alone_next(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=2)
        lease = await executor.lease()
        await executor.report(give_back(lease, pb.GIVE_BACK_REASON_PROCESS_DIED))
        await execution.make_due(job_id)

        assert not lease.run_alone
        assert (await executor.leases_when(2))[1].run_alone


async def test_a_stale_token_is_refused_everywhere_and_stores_nothing(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=2)
        stale = await executor.lease()
        await executor.fail(stale, "PROVIDER_TIMEOUT")
        await execution.make_due(job_id)
        current = (await executor.leases_when(2))[1]

        # Another token of the same attempt: something else has ended it.
        forged = pb.Lease(job_id=stale.job_id, token="1.made-up", attempt=1)
        assert (await executor.succeed(forged)).outcome == LEASE_LOST
        assert (await executor.succeed(stale)).outcome == REFUSED
        await executor.send(heartbeats=[heartbeat(stale, progress=90)], pieces=pieces(stale, "late"))
        await executor.until(lambda: executor.lost)
        assert {each.token for each in executor.lost} == {stale.token}
        for lease in (stale, forged):
            refusal = await refused(execution.stub.GetSnapshot(pb.GetSnapshotRequest(lease=ref(lease))))
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "LEASE_LOST")
        refusal = await refused(
            execution.stub.ReportResult(pb.ReportResultRequest(lease=ref(forged), success=success_of(forged)))
        )
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "LEASE_LOST")

        job = await execution.read(job_id)
        assert (job.state, job.progress, job.attempt) == (JobState.RUNNING, 0, 2)
        assert await execution.rows("select * from synthetic_results") == []
        assert await execution.rows("select * from output_pieces") == []
        assert (await executor.succeed(current)).outcome == ACCEPTED


async def test_a_malformed_report_is_refused_by_itself(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        await execution.jobs(2)
        executor = await execution.executor(credits=2)
        first, second = await executor.leases_when(2)

        refusal, nothing, accepted = await executor.report(
            failure(first, "not a code"), pb.Report(lease=ref(first)), success(second)
        )

        by_lease = {each.lease.job_id: each for each in (refusal, nothing, accepted)}
        assert by_lease[second.job_id].outcome == ACCEPTED
        assert (by_lease[first.job_id].outcome, by_lease[first.job_id].reason) == (REFUSED, "INVALID_INPUT")
        assert by_lease[first.job_id].message.startswith("reports[")


async def test_a_report_without_a_session_counts_as_well(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        first_job, second_job = await execution.jobs(2)
        executor = await execution.executor(credits=2)
        by_job = {each.job_id: each for each in await executor.leases_when(2)}
        first, second = by_job[str(first_job)], by_job[str(second_job)]

        result = await execution.stub.ReportResult(
            pb.ReportResultRequest(lease=ref(first), success=success_of(first))
        )
        failed = await execution.stub.ReportFailure(
            pb.ReportFailureRequest(lease=ref(second), failure=failure(second, "INPUT_BROKEN").failure)
        )

        assert (result.answer.outcome, failed.answer.outcome) == (ACCEPTED, ACCEPTED)
        assert (await execution.read(first_job)).state is JobState.SUCCEEDED
        assert (await execution.read(second_job)).state is JobState.FAILED


async def test_a_report_of_a_job_that_never_was_is_a_lost_lease(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        executor = await execution.executor()
        nowhere = pb.Lease(job_id=str(uuid4()), token="1.nowhere")

        assert (await executor.succeed(nowhere)).outcome == LEASE_LOST


async def test_an_executor_that_gives_back_because_it_stops_gets_no_more_leases(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        stopping = await execution.executor(credits=8)
        await execution.job()
        lease = await stopping.lease()
        await stopping.report(give_back(lease, pb.GIVE_BACK_REASON_DRAINING))

        other = await execution.executor(credits=4)
        await execution.jobs(4)
        await other.leases_when(4)

        assert stopping.leases == [lease]
