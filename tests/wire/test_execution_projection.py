"""Projection on the wire: all of a result becomes durable, or nothing of it, whatever fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest
import sqlalchemy as sa
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from job_worker.app import service
from job_worker.settings import WorkerSettings
from shared.domain.jobs import JobState
from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.runtime.faults import StartupFault
from shared.streams.connection import open_redis
from tests.support.execution_service import Execution, execution_running
from tests.support.redis_keys import wipe
from verification.peers.cuttable import cuttable
from verification.peers.executor import ScriptedExecutor, heartbeat, success

ACCEPTED = pb.REPORT_OUTCOME_ACCEPTED
RETRY_SCHEDULED = pb.REPORT_OUTCOME_RETRY_SCHEDULED

Servers = tuple[str, str, str]

MODULE = "tests.support.projected_jobs"
JOB_TYPES = ("projected", "redacted", "unkept", "synthetic")
CAPABILITIES = [
    pb.Capability(job_type=each, input_schema_versions=[1], output_schema_versions=[1]) for each in JOB_TYPES
]


@pytest.fixture
def servers(database_url: str, redis_url: str, redis_prefix: str) -> Servers:
    return database_url, redis_url, redis_prefix


async def leases(
    execution: Execution, count: int, job_type: str = "projected"
) -> tuple[ScriptedExecutor, list[pb.Lease]]:
    """Leases of new jobs of a type, and the executor that holds them."""
    await execution.jobs(count, job_type=job_type, stream=f"drill:{job_type}:1.1:2")
    executor = await execution.executor(credits=count, capabilities=CAPABILITIES)
    return executor, await executor.leases_when(count)


@contextmanager
def statements() -> Iterator[list[str]]:
    """Every statement that any engine of this process runs."""
    seen = list[str]()

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(sa.engine.Engine, "before_cursor_execute", note)


@pytest.mark.parametrize("fault", ["raise", "break", "write_twice", "same_artifact"])
async def test_a_projector_that_fails_leaves_nothing_and_costs_its_neighbours_nothing(
    servers: Servers, fault: str
) -> None:
    async with execution_running(*servers, job_modules=(MODULE,)) as execution:
        executor, (first, culprit, third) = await leases(execution, 3)

        answers = await executor.report(
            success(first, {"do": "write"}), success(culprit, {"do": fault}), success(third, {"do": "write"})
        )

        assert [each.outcome for each in answers] == [ACCEPTED, RETRY_SCHEDULED, ACCEPTED]
        rows = await execution.rows("select job_id from synthetic_results")
        assert {str(row.job_id) for row in rows} == {first.job_id, third.job_id}
        job = await execution.read(UUID(culprit.job_id))  # type: ignore[arg-type]
        assert job.state is JobState.RUNNING
        assert job.error is not None
        assert (job.error.code, job.error.message) == (
            "INTERNAL_PROJECTION",
            "the result could not be stored",
        )
        assert await execution.artifacts(job.job_id) == []
        assert job.error.internal_message


@pytest.mark.parametrize(
    ("fault", "message"), [("misname", "name 'nothing' is not defined"), ("raise", None)]
)
async def test_the_log_tells_slips_in_a_projector_but_nothing_that_may_hold_an_output(
    servers: Servers, fault: str, message: str | None
) -> None:
    async with execution_running(*servers, job_modules=(MODULE,)) as execution:
        executor, (lease,) = await leases(execution, 1)
        with structlog.testing.capture_logs() as lines:
            await executor.report(success(lease, {"do": fault}))

    [failed] = [each for each in lines if each["event"] == "projection.failed"]
    assert failed["message"] == message


async def test_a_projector_that_is_too_slow_fails_and_holds_nobody_up(servers: Servers) -> None:
    quick = {"projection_seconds_max": 1.0}
    async with execution_running(*servers, job_modules=(MODULE,), sessions=quick) as execution:
        executor, (slow, quick_one) = await leases(execution, 2)

        await executor.send(reports=[success(slow, {"do": "sleep"})])
        await execution.until_row("select 1 from pg_stat_activity where wait_event = 'PgSleep'")
        await executor.send(reports=[success(quick_one, {"do": "write"})])
        await executor.until(lambda: len(executor.answers) == 2)

        assert [(each.lease.job_id, each.outcome) for each in executor.answers] == [
            (quick_one.job_id, ACCEPTED),
            (slow.job_id, RETRY_SCHEDULED),
        ]


async def test_a_projector_that_waits_for_something_else_fails_and_frees_its_job(servers: Servers) -> None:
    quick = {"projection_seconds_max": 0.2}
    async with execution_running(*servers, job_modules=(MODULE,), sessions=quick) as execution:
        executor, (waiting, quick_one) = await leases(execution, 2)

        answers = await executor.report(success(waiting, {"do": "wait"}), success(quick_one, {"do": "write"}))

        assert {each.lease.job_id: each.outcome for each in answers} == {
            waiting.job_id: RETRY_SCHEDULED,
            quick_one.job_id: ACCEPTED,
        }


async def test_two_hundred_results_in_one_frame_are_a_handful_of_statements(servers: Servers) -> None:
    async with execution_running(*servers) as execution:
        executor = await execution.executor(credits=200)
        await execution.jobs(200)
        await execution.dispatch_until(lambda: len(executor.leases) == 200)

        with statements() as seen:
            answers = await executor.report(*(success(each) for each in executor.leases))

        assert {each.outcome for each in answers} == {ACCEPTED}
        written = [each for each in seen if "leases" in each or "synthetic_results" in each]
        assert len([each for each in written if "insert into synthetic_results" in each]) == 1
        assert len(seen) < 20
        (counted,) = await execution.rows("select count(*) as results from synthetic_results")
        assert counted.results == 200


async def test_a_chain_goes_on_with_a_job_of_the_same_owner(servers: Servers) -> None:
    async with execution_running(*servers, job_modules=(MODULE,)) as execution:
        executor, (lease,) = await leases(execution, 1)
        await executor.succeed(lease, {"do": "chain"})
        await execution.dispatch()
        await executor.credit(1)

        second = (await executor.leases_when(2))[1]

        assert (second.job_type, second.priority) == ("synthetic", 7)
        assert b'"items":5' in second.input
        assert (await execution.read(UUID(second.job_id))).owner == "owner"  # type: ignore[arg-type]


async def test_what_is_kept_of_an_output_is_what_its_definition_says(servers: Servers) -> None:
    async with execution_running(*servers, job_modules=(MODULE,)) as execution:
        for job_type, kept in (("redacted", b'{"do":"write"}'), ("unkept", None)):
            executor, (lease,) = await leases(execution, 1, job_type)
            answer = await executor.succeed(lease, {"do": "write", "secret": "s3cret"})

            assert answer.outcome == ACCEPTED
            (row,) = await execution.rows("select output from attempts where job_id = :id", id=lease.job_id)
            assert row.output == kept


async def test_an_imported_document_becomes_knowledge_items_and_artifacts(servers: Servers) -> None:
    item = {"ordinal": 1, "heading_path": ["A", "B"], "text": "Zwölf", "characters": 5, "sha256": "a" * 64}
    output = {
        "title": "T",
        "format": "markdown",
        "pages": None,
        "sections": 2,
        "characters": 10,
        "items": [{**item, "page": None}, {**item, "ordinal": 2, "page": 3}],
    }
    can = pb.Capability(job_type="document_import", input_schema_versions=[1], output_schema_versions=[1])
    async with execution_running(*servers) as execution:
        job_id = await execution.job(
            job_type="document_import", queue="import", stream="import:document_import:1.1:2"
        )
        executor = await execution.executor(capabilities=[can])
        await executor.credit(1, queue="import")

        answer = await executor.succeed(await executor.lease(), output)

        assert answer.outcome == ACCEPTED
        rows = await execution.rows("select * from knowledge_items order by ordinal")
        assert [(row.ordinal, row.owner, row.heading_path, row.content, row.page) for row in rows] == [
            (1, "owner", ["A", "B"], "Zwölf", None),
            (2, "owner", ["A", "B"], "Zwölf", 3),
        ]
        artifacts = await execution.artifacts(job_id)
        assert [(each.type, each.id, each.ordinal) for each in artifacts] == [
            ("knowledge_item", "1", 1),
            ("knowledge_item", "2", 2),
        ]
        assert '"text":"Zwölf"'.encode() in artifacts[0].content
        assert (await execution.read(job_id)).artifact_count == 2


async def test_results_wait_while_the_database_is_away_and_health_says_so(servers: Servers) -> None:
    database_url, *redis = servers
    async with (
        cuttable(database_url) as way,
        execution_running(way.url, *redis, callers_database_url=database_url) as execution,
        grpc.aio.insecure_channel(execution.address) as channel,
    ):
        job_id = await execution.job()
        executor = await execution.executor(credits=1)
        lease = await executor.lease()
        stub: Any = health_pb2_grpc.HealthStub(channel)
        health = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await health.read()).status == health_pb2.HealthCheckResponse.SERVING

        await way.cut()
        await executor.send(reports=[success(lease)])
        assert (await health.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await execution.stub.ReportFailure(
                pb.ReportFailureRequest(
                    lease=pb.LeaseRef(job_id=str(uuid4()), token="1.x"),
                    failure=pb.Failure(code="INPUT_BROKEN", message="broken"),
                )
            )
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert executor.answers == []
        await way.mend()

        assert (await health.read()).status == health_pb2.HealthCheckResponse.SERVING
        await executor.until(lambda: executor.answers)
        assert executor.answers[0].outcome == ACCEPTED
        assert (await execution.read(job_id)).state is JobState.SUCCEEDED
        health.cancel()


async def test_leases_run_on_while_redis_is_away_and_come_again_with_it(servers: Servers) -> None:
    database_url, redis_url, prefix = servers
    async with (
        cuttable(redis_url) as way,
        execution_running(database_url, way.url, prefix, callers_redis_url=redis_url) as execution,
    ):
        await execution.jobs(2)
        executor = await execution.executor(credits=1)
        lease = await executor.lease()

        await way.cut()
        await executor.send(heartbeats=[heartbeat(lease, progress=50)], heartbeat_number=1)
        await executor.until(lambda: executor.heartbeats_recorded == 1)
        assert (await executor.succeed(lease)).outcome == ACCEPTED
        await executor.credit(1)
        await way.mend()

        await executor.leases_when(2)


async def test_jobs_run_after_redis_has_lost_everything(servers: Servers) -> None:
    async with execution_running(*servers) as execution, open_redis(servers[1]) as redis:
        await execution.jobs(2)
        await wipe(redis, servers[2])
        executor = await execution.executor(credits=3)
        await execution.jobs(1)

        # The dispatcher of JobControl notices the lost stream and sends its rows again.
        await execution.dispatch_until(lambda: len(executor.leases) == 3)


async def test_a_definition_without_its_projector_keeps_the_service_from_starting(servers: Servers) -> None:
    settings = WorkerSettings(
        database_url=servers[0],
        redis_url=servers[1],  # type: ignore[arg-type]
        job_modules=("tests.support.drill_jobs", "tests.support.nowhere"),
    )
    with pytest.raises(Exception, match="nowhere"):
        async with service(settings):
            raise AssertionError("it started")

    with pytest.raises(StartupFault) as caught:
        async with service(settings.model_copy(update={"job_modules": ("tests.support.drill_jobs",)})):
            raise AssertionError("it started")
    assert caught.value.faults == (
        "job type 'async_drill': there is no projector 'none'",
        "job type 'plain_drill': there is no projector 'none'",
    )
