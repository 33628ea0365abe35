"""Sessions on the wire: hello, credits, drain, goodbye, and what becomes of leases."""

from __future__ import annotations

from contextlib import AsyncExitStack
from uuid import uuid4

import grpc
import pytest

from shared.domain.jobs import JobState
from shared.gen.baton.v1 import execution_service_pb2 as pb
from tests.support.control_service import SECRET, bearing
from tests.support.execution_service import execution_running
from verification.peers.executor import SYNTHETIC, ScriptedExecutor, ref, success


@pytest.fixture
def servers(database_url: str, redis_url: str, redis_prefix: str) -> tuple[str, str, str]:
    return database_url, redis_url, redis_prefix


async def test_a_hello_is_welcomed_with_the_limits(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers) as execution:
        executor = await execution.executor()

        assert executor.welcome.session_id
        assert executor.welcome.output_bytes_max == 1024 * 1024
        assert executor.welcome.piece_bytes_max == 64 * 1024
        assert executor.welcome.progress_message_characters_max == 200
        assert executor.welcome.frame_bytes_max == 4 * 1024 * 1024


async def test_a_lease_carries_what_its_executor_needs(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job(input=b'{"items": 3}', priority=20, traceparent="00-ab-cd-01")
        executor = await execution.executor(credits=1)

        lease = await executor.lease()

    assert lease.job_id == str(job_id)
    assert (lease.attempt, lease.job_type, lease.queue, lease.priority) == (1, "synthetic", "drill", 20)
    assert (lease.input, lease.input_bytes) == (b'{"items": 3}', 12)
    assert lease.time_left.seconds == 600
    assert lease.heartbeat_interval.seconds == 10
    assert lease.lease_duration.seconds == 30
    assert lease.cancellable
    assert lease.traceparent == "00-ab-cd-01"
    assert not lease.HasField("document")
    assert not lease.HasField("last_error")
    assert lease.credential_mode == 1


async def test_nobody_gets_more_leases_than_credits_and_more_come_with_more_credits(
    servers: tuple[str, str, str],
) -> None:
    async with execution_running(*servers) as execution:
        await execution.jobs(8)
        first = await execution.executor(credits=2)
        second = await execution.executor(credits=3)

        await first.leases_when(2)
        await second.leases_when(3)
        # Another job for a third executor proves that the feed had looked again, with nothing for these two.
        third = await execution.executor(credits=1)
        await third.lease()
        assert (len(first.leases), len(second.leases)) == (2, 3)

        await first.credit(2)
        await first.leases_when(4)
        assert len({each.job_id for each in (*first.leases, *second.leases, *third.leases)}) == 8


async def test_urgent_jobs_come_first(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers) as execution:
        patient = await execution.job(priority=90, stream="drill:synthetic:1.1:3")
        urgent = await execution.job(priority=0, stream="drill:synthetic:1.1:0")

        executor = await execution.executor(credits=1)
        assert (await executor.lease()).job_id == str(urgent)
        await executor.credit(1)
        assert (await executor.leases_when(2))[1].job_id == str(patient)


async def test_credits_in_one_frame_are_shared_by_all_streams_of_the_queue(
    servers: tuple[str, str, str],
) -> None:
    async with execution_running(*servers) as execution:
        for band, priority in enumerate((0, 10, 40, 70)):
            await execution.jobs(3, priority=priority, stream=f"drill:synthetic:1.1:{band}")
        executor = await execution.executor(credits=4)

        await executor.leases_when(4)
        await (await execution.executor(credits=1)).lease()

        assert [each.priority for each in executor.leases] == [0, 0, 0, 10]


async def test_a_job_waits_for_an_executor_that_can_do_its_versions(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers) as execution:
        await execution.job(stream="drill:synthetic:2.1:2", input_schema_version=2)
        older = await execution.executor(credits=1)
        both = pb.Capability(job_type="synthetic", input_schema_versions=[1, 2], output_schema_versions=[1])
        newer = await execution.executor(credits=1, capabilities=[both])

        assert (await newer.lease()).input_schema_version == 2
        assert older.leases == []


async def test_an_executor_that_is_newer_than_the_service_gets_what_both_know(
    servers: tuple[str, str, str],
) -> None:
    async with execution_running(*servers) as execution:
        await execution.job()
        unknown = pb.Capability(job_type="not_yet", input_schema_versions=[1], output_schema_versions=[1])
        executor = await execution.executor(credits=1, capabilities=[unknown, SYNTHETIC])

        assert (await executor.lease()).job_type == "synthetic"


async def test_a_new_hello_replaces_the_session_and_keeps_what_it_names(
    servers: tuple[str, str, str],
) -> None:
    async with execution_running(*servers) as execution:
        kept_job, given_back_job = await execution.jobs(2)
        incarnation = str(uuid4())
        older = await execution.executor(incarnation_id=incarnation, credits=2)
        by_job = {each.job_id: each for each in await older.leases_when(2)}
        kept = by_job[str(kept_job)]

        gone = pb.Lease(job_id=str(uuid4()), token="1.never-was-a-lease")
        newer = await execution.executor(incarnation_id=incarnation, held=[kept, gone])

        assert await older.until_over() is grpc.StatusCode.ABORTED
        assert list(newer.welcome.kept) == [ref(kept)]
        assert list(newer.welcome.lost) == [ref(gone)]
        assert (await newer.succeed(kept)).outcome == pb.REPORT_OUTCOME_ACCEPTED
        (attempt,) = await execution.rows(
            "select outcome from attempts where job_id = :job_id", job_id=given_back_job
        )
        assert attempt.outcome == "given_back"
        assert (await execution.read(given_back_job)).state is JobState.RUNNING


async def test_a_session_that_was_replaced_on_another_replica_is_ended(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers) as one, execution_running(*servers) as other:
        incarnation = str(uuid4())
        older = await one.executor(incarnation_id=incarnation, credits=5)
        newer = await other.executor(incarnation_id=incarnation, credits=5)

        assert await older.until_over() is grpc.StatusCode.ABORTED

        await one.jobs(3)
        await newer.leases_when(3)
        assert older.leases == []


async def test_a_goodbye_gives_back_what_is_left(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        await executor.lease()

        await executor.goodbye()
        assert executor.status is grpc.StatusCode.OK

        await execution.make_due_when_waiting(job_id)
        other = await execution.executor(credits=1)
        assert (await other.lease()).attempt == 2


async def test_the_last_reports_are_answered_after_a_goodbye(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers) as execution:
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()

        await executor.send(reports=[success(lease)], goodbye=pb.Goodbye())
        await executor.half_close()

        assert await executor.until_over() is grpc.StatusCode.OK
        assert [each.outcome for each in executor.answers] == [pb.REPORT_OUTCOME_ACCEPTED]
        assert (await execution.read(job_id)).state is JobState.SUCCEEDED


async def test_the_end_of_a_stream_is_no_goodbye(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers) as execution:
        await execution.job()
        incarnation = str(uuid4())
        executor = await execution.executor(incarnation_id=incarnation, credits=1)
        lease = await executor.lease()
        await executor.half_close()
        await executor.until_over()

        again = await execution.executor(incarnation_id=incarnation, held=[lease])

        assert list(again.welcome.kept) == [ref(lease)]


async def test_a_service_that_stops_sends_its_executors_elsewhere(servers: tuple[str, str, str]) -> None:
    incarnation = str(uuid4())
    async with execution_running(*servers) as staying, AsyncExitStack() as outliving:
        async with execution_running(*servers) as stopping:
            await stopping.job()
            executor = await outliving.enter_async_context(ScriptedExecutor.connected(stopping.address))
            await executor.hello(incarnation_id=incarnation, credits=3)
            lease = await executor.lease()

        assert executor.drained
        assert await executor.until_over() is grpc.StatusCode.OK
        elsewhere = await staying.executor(incarnation_id=incarnation, held=[lease])
        assert list(elsewhere.welcome.kept) == [ref(lease)]
        assert (await elsewhere.succeed(lease)).outcome == pb.REPORT_OUTCOME_ACCEPTED


async def test_an_old_session_is_handed_over_and_then_ended(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers, sessions={"age_seconds": 0.1, "drain_seconds": 0.5}) as execution:
        executor = await execution.executor(credits=1)

        await executor.until(lambda: executor.drained)
        await execution.job()

        assert await executor.until_over() is grpc.StatusCode.OK
        assert executor.leases == []


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        (pb.OpenSessionRequest(heartbeat_number=1), "hello"),
        (pb.OpenSessionRequest(hello=pb.Hello(incarnation_id=str(uuid4()))), "hello.executor_name"),
        (
            pb.OpenSessionRequest(hello=pb.Hello(executor_name="e", incarnation_id="none")),
            "hello.incarnation_id",
        ),
        (
            pb.OpenSessionRequest(hello=pb.Hello(executor_name="e", incarnation_id=str(uuid4()))),
            "hello.capabilities",
        ),
        (
            pb.OpenSessionRequest(
                hello=pb.Hello(
                    executor_name="e",
                    incarnation_id=str(uuid4()),
                    capabilities=[pb.Capability(job_type="synthetic", input_schema_versions=[1])],
                )
            ),
            "hello.capabilities[0].output_schema_versions",
        ),
    ],
)
async def test_a_first_frame_that_is_no_good_hello_is_refused_by_its_field(
    servers: tuple[str, str, str], frame: pb.OpenSessionRequest, field: str
) -> None:
    async with (
        execution_running(*servers) as execution,
        ScriptedExecutor.connected(execution.address) as executor,
    ):
        await executor.send_frame(frame)
        executor.listen()

        assert await executor.until_over() is grpc.StatusCode.INVALID_ARGUMENT
        assert executor.error is not None
        assert (executor.error.details() or "").startswith(field)


async def test_a_malformed_frame_ends_the_session_by_its_field(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers) as execution:
        executor = await execution.executor()
        await executor.send(credits=[pb.Credit(queue="drill", count=1), pb.Credit(queue="drill")])

        assert await executor.until_over() is grpc.StatusCode.INVALID_ARGUMENT
        assert executor.error is not None
        assert (executor.error.details() or "").startswith("credits[1].count")


async def test_a_second_hello_on_a_stream_is_refused(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers) as execution:
        executor = await execution.executor()
        await executor.send(hello=pb.Hello(executor_name="again"))

        assert await executor.until_over() is grpc.StatusCode.INVALID_ARGUMENT


async def test_an_executor_needs_its_scope(servers: tuple[str, str, str]) -> None:
    async with execution_running(*servers, token_secret=SECRET) as execution:
        request = pb.GetSnapshotRequest(lease=pb.LeaseRef(job_id=str(uuid4()), token="1.x"))
        call = execution.stub.GetSnapshot(request, metadata=bearing("someone", "jobs.read"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED

        call = execution.stub.GetSnapshot(request, metadata=bearing("executor", "jobs.execute"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
