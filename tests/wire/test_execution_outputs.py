"""Inputs and outputs on the wire: snapshots, models, sizes, pieces."""

from __future__ import annotations

import pytest

from job_worker.sessions.piece_batch import PIECES_MAX
from shared.domain.attempts import AttemptOutcome
from shared.domain.jobs import JobState
from shared.gen.baton.v1 import execution_service_pb2 as pb
from tests.support.execution_service import execution_running
from verification.peers.executor import (
    failure,
    hash_of,
    pieces,
    ref,
    success,
)

ACCEPTED = pb.REPORT_OUTCOME_ACCEPTED
RETRY_SCHEDULED = pb.REPORT_OUTCOME_RETRY_SCHEDULED
REFUSED = pb.REPORT_OUTCOME_REFUSED

Servers = tuple[str, str, str]


@pytest.fixture
def servers(database_url: str, redis_url: str, redis_prefix: str) -> Servers:
    return database_url, redis_url, redis_prefix


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


async def test_a_failure_comes_after_the_pieces_that_were_sent_before_it(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()
        texts = [f"{number} " for number in range(3 * PIECES_MAX)]

        await executor.send(pieces=pieces(lease, *texts), reports=[failure(lease)])
        await executor.until(lambda: executor.answers)

        assert executor.answers[0].outcome == RETRY_SCHEDULED
        rows = await execution.rows("select content from output_pieces order by number")
        assert [row.content for row in rows] == texts
        kinds = [str(each.kind) for each in await execution.events(job_id)]
        assert kinds[-1] == "retry_scheduled"


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
