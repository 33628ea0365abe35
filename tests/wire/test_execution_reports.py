"""Reports on the wire: what becomes durable, what is answered, and what is refused."""

from __future__ import annotations

from uuid import uuid4

import grpc
import pytest

from shared.domain.attempts import AttemptOutcome
from shared.domain.jobs import JobState
from shared.gen.baton.v1 import execution_service_pb2 as pb
from tests.support.control_service import refused
from tests.support.execution_service import Execution, execution_running
from tests.support.scripted_executor import (
    failure,
    give_back,
    hash_of,
    heartbeat,
    pieces,
    ref,
    stopped,
    success,
    success_of,
)

ACCEPTED = pb.REPORT_OUTCOME_ACCEPTED
CANCELLED_INSTEAD = pb.REPORT_OUTCOME_CANCELLED_INSTEAD
RETRY_SCHEDULED = pb.REPORT_OUTCOME_RETRY_SCHEDULED
LEASE_LOST = pb.REPORT_OUTCOME_LEASE_LOST
REFUSED = pb.REPORT_OUTCOME_REFUSED

Servers = tuple[str, str, str]


@pytest.fixture
def servers(database_url: str, redis_url: str, redis_prefix: str) -> Servers:
    return database_url, redis_url, redis_prefix


async def outcomes(execution: Execution, job_id: object) -> list[str]:
    rows = await execution.rows(
        "select outcome from attempts where job_id = :job_id order by attempt", job_id=job_id
    )
    return [row.outcome for row in rows]


async def test_a_result_is_committed_with_everything_that_belongs_to_it(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()

        answer = await executor.succeed(lease, {"items": 7, "attempt": 1, "padding": "x"})

        assert answer.outcome == ACCEPTED
        assert answer.lease == ref(lease)
        job = await execution.read(job_id)
        assert (job.state, job.progress, job.attempt) == (JobState.SUCCEEDED, 100, 1)
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
        assert await outcomes(execution, job_id) == ["failed", "succeeded"]


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
        assert await outcomes(execution, job_id) == [attempt]


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


async def test_an_output_that_does_not_fit_is_a_failure_that_the_next_attempt_is_told(
    servers: Servers,
) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=2)

        answer = await executor.succeed(await executor.lease(), {"items": "many", "attempt": 1, "more": 1})
        await execution.make_due(job_id)
        second = (await executor.leases_when(2))[1]

        assert answer.outcome == RETRY_SCHEDULED
        assert second.last_error.code == "VALIDATION_OUTPUT"
        assert "items" in second.last_error.message
        assert "more" in second.last_error.message


@pytest.mark.parametrize(
    "changes",
    [{"output_hash": "0" * 64}, {"output": b'{"items": 1'}, {"output": b'{"items": NaN, "attempt": 1}'}],
)
async def test_an_output_that_is_not_what_was_said_is_a_failure(
    servers: Servers, changes: dict[str, object]
) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)

        answer = await executor.succeed(await executor.lease(), **changes)

        assert answer.outcome == RETRY_SCHEDULED
        error = (await execution.read(job_id)).error
        assert error is not None
        assert error.code == "VALIDATION_OUTPUT"


async def test_a_large_output_is_taken_and_a_too_large_one_is_a_final_failure(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        fits_job, too_large_job = await execution.jobs(2)
        executor = await execution.executor(credits=2)
        by_job = {each.job_id: each for each in await executor.leases_when(2)}

        def padded(total: int) -> dict[str, object]:
            return {"items": 1, "attempt": 1, "padding": "x" * total}

        fits = await executor.succeed(by_job[str(fits_job)], padded(1024 * 1024 - 100))
        too_large = await executor.succeed(by_job[str(too_large_job)], padded(1024 * 1024))

        assert fits.outcome == ACCEPTED
        assert (too_large.outcome, too_large.reason) == (REFUSED, "PAYLOAD_TOO_LARGE")
        assert (await execution.read(fits_job)).state is JobState.SUCCEEDED
        job = await execution.read(too_large_job)
        assert job.state is JobState.FAILED
        assert job.error is not None
        assert job.error.code == "PAYLOAD_TOO_LARGE"


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
        assert await outcomes(execution, job_id) == ["cancelled"]


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
        assert await outcomes(execution, job_id) == ["cancelled"]
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


async def test_pieces_are_stored_once_and_a_new_attempt_begins_with_a_reset(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=2)
        first = await executor.lease()
        await executor.send(pieces=pieces(first, "one", "two"))
        await executor.send(pieces=pieces(first, "one", "two", "three"))
        await executor.until(lambda: 3 in executor.pieces_recorded)
        await executor.fail(first, "PROVIDER_TIMEOUT")
        await execution.make_due(job_id)
        second = (await executor.leases_when(2))[1]

        texts = ("Once ", "upon ", "a time")
        answer_to = success(second, piece_count=3, pieces_hash=hash_of(*texts))
        await executor.send(pieces=pieces(second, *texts), reports=[answer_to])
        await executor.until(lambda: len(executor.answers) == 2)

        assert executor.answers[1].outcome == ACCEPTED
        rows = await execution.rows("select attempt, content from output_pieces order by attempt, number")
        assert [(row.attempt, row.content) for row in rows] == [
            (1, "one"),
            (1, "two"),
            (1, "three"),
            (2, "Once "),
            (2, "upon "),
            (2, "a time"),
        ]
        kinds = [str(each.kind) for each in await execution.events(job_id)]
        assert kinds.count("output_reset") == 1
        assert kinds[-2:] == ["output_reset", "succeeded"]


@pytest.mark.parametrize(("count", "texts"), [(3, ("one", "two")), (2, ("one", "other"))])
async def test_a_result_whose_pieces_are_not_what_it_says_is_a_failure(
    servers: Servers, count: int, texts: tuple[str, ...]
) -> None:
    async with execution_running(*servers) as execution:
        await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()
        await executor.send(pieces=pieces(lease, *texts))

        answer = await executor.succeed(lease, piece_count=count, pieces_hash=hash_of("one", "two"))

        assert answer.outcome == RETRY_SCHEDULED
        rows = await execution.rows("select outcome, error_code from attempts")
        assert [(row.outcome, row.error_code) for row in rows] == [
            (AttemptOutcome.FAILED, "VALIDATION_OUTPUT")
        ]


async def test_the_snapshot_of_a_lease_comes_in_parts_with_its_document(servers: Servers) -> None:
    large = b'{"note": "' + b"n" * 100_000 + b'"}'
    async with execution_running(*servers) as execution:
        upload_id = await execution.upload(b"d" * 1_500_000, b"e" * 10)
        job_id = await execution.job(input=large, upload_id=upload_id)
        executor = await execution.executor(credits=1)
        lease = await executor.lease()

        parts = [each async for each in execution.stub.GetSnapshot(pb.GetSnapshotRequest(lease=ref(lease)))]

    assert lease.job_id == str(job_id)
    assert (lease.input, lease.input_bytes) == (b"", len(large))
    assert (lease.document.document_bytes, lease.document.file_name) == (1_500_010, "notes.txt")
    assert b"".join(each.input_chunk for each in parts) == large
    assert b"".join(each.document_chunk for each in parts) == b"d" * 1_500_000 + b"e" * 10
    kinds = [each.WhichOneof("part") for each in parts]
    assert kinds == sorted(kinds, reverse=True)
    assert max(each.ByteSize() for each in parts) < 1_100_000


async def test_the_claim_of_a_stream_entry_that_is_there_twice_grants_one_lease(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        await execution.execute("update outbox set state = 'pending' where aggregate_id = :id", id=job_id)
        await execution.dispatch()
        executor = await execution.executor(credits=2)
        await executor.lease()
        other_job = await execution.job()

        assert [each.job_id for each in await executor.leases_when(2)] == [str(job_id), str(other_job)]
