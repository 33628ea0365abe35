"""What is one owner's does not exist for another, whatever method asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio

from job_api.rpc.job_control_servicer import SCOPES
from shared.domain.scopes import JOBS_ADMIN
from shared.gen.baton.v1 import batch_pb2, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support.control_service import SECRET, Control, bearing, hosted, refused, request_of
from tests.support.servers import PostgresServer, ValkeyServer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_control(
    postgres_server: PostgresServer, valkey_server: ValkeyServer
) -> AsyncIterator[Control]:
    """One service for the whole walk: each method has an Ada and a Bob of its own."""
    async with postgres_server.migrated_database() as url:
        prefix = valkey_server.fresh_prefix()
        async for each in hosted(url, valkey_server.url, prefix, token_secret=SECRET):
            yield each


def by(subject: str) -> Any:
    """Metadata of an owner's call; made for each, as tokens don't outlive a minute."""
    return bearing(subject, "jobs.read", "jobs.write")


@dataclass(frozen=True)
class World:
    """Ada's things, and Bob's way to ask about them."""

    control: Control
    ada: str
    bob: str
    job_id: str
    batch_id: str
    upload_id: str

    def ask(self, method: str, **fields: Any) -> Any:
        """Ask as Bob."""
        return getattr(self.control.stub, method)(request_of(method, **fields), metadata=by(self.bob))

    @property
    def hers(self) -> pb.JobFilter:
        return pb.JobFilter(labels={"of": "ada"})


@dataclass(frozen=True)
class Refused:
    """What Bob is told of what is Ada's."""

    code: grpc.StatusCode
    reason: str
    metadata: Callable[[World], dict[str, str]]
    fields: Callable[[World], dict[str, Any]] = field(default=lambda _: {})

    async def __call__(self, world: World, method: str) -> None:
        refusal = await refused(world.ask(method, **self.fields(world)))
        assert refusal.code is self.code, method
        assert (refusal.reason, refusal.metadata) == (self.reason, self.metadata(world)), method


def no_job(**fields: Any) -> Refused:
    return Refused(
        grpc.StatusCode.NOT_FOUND,
        "JOB_NOT_FOUND",
        lambda world: {"job_id": world.job_id},
        lambda world: {"job_id": world.job_id, **fields},
    )


def no_batch(**fields: Any) -> Refused:
    return Refused(
        grpc.StatusCode.NOT_FOUND,
        "BATCH_NOT_FOUND",
        lambda world: {"batch_id": world.batch_id},
        lambda world: {"batch_id": world.batch_id, **fields},
    )


def needs_to_act_for_her(**fields: Any) -> Refused:
    refusal = needs(ON_BEHALF)
    return replace(refusal, fields=lambda world: {"owner": world.ada, **fields})


def needs(scope: str, **fields: Any) -> Refused:
    return Refused(
        grpc.StatusCode.PERMISSION_DENIED,
        "PERMISSION_DENIED",
        lambda _: {"scope": scope},
        lambda _: fields,
    )


Check = Callable[[World, str], Awaitable[None]]


async def lists_nothing(world: World, method: str) -> None:
    """A list without a filter is of one's own; one that names the other's batch is empty."""
    response = await world.ask(method)
    assert [value for _, value in response.ListFields()] == [], method
    if method == "ListJobs":
        response = await world.ask(method, filter=pb.JobFilter(batch_id=world.batch_id))
        assert list(response.jobs) == []


async def touches_nothing(world: World, method: str) -> None:
    for dry_run in (True, False):
        response = await world.ask(method, filter=world.hers, dry_run=dry_run)
        assert response.count == 0, method


async def creates_nothing(world: World, method: str) -> None:
    """Each item of a call has an outcome of its own."""
    response = await world.ask(method, jobs=[pb.CreateJobRequest(owner=world.ada, **A_JOB)])
    [outcome] = response.outcomes
    assert outcome.error.reason == "PERMISSION_DENIED", method


async def watches_nothing(world: World, method: str) -> None:
    """The first job in Bob's view is Bob's, though Ada's came before."""
    watch = world.ask(method)
    assert (await watch.read()).HasField("began")
    await world.control.stub.CreateJob(request_of("CreateJob", **A_JOB), metadata=by(world.ada))
    his = (await world.ask("CreateJob", **A_JOB)).job.job_id
    while not (update := await watch.read()).HasField("job"):
        pass
    assert update.job.job_id == his
    watch.cancel()


async def is_everyones(world: World, method: str) -> None:
    """It tells what the deployment can do, and nothing of an owner."""
    fields = {"job_type": "synthetic", "size": 3} if method == "EstimateBatch" else {}
    assert await world.ask(method, **fields)


A_JOB: dict[str, Any] = {"job_type": "synthetic", "input": b"{}", "labels": {"of": "ada"}}
ON_BEHALF = "jobs.on_behalf"
WALK: Mapping[str, Check] = MappingProxyType(
    {
        "CreateJob": needs_to_act_for_her(**A_JOB),
        "CreateJobs": creates_nothing,
        "UploadInput": needs_to_act_for_her(),
        "GetJob": no_job(),
        "GetJobOutput": no_job(),
        "ListJobs": lists_nothing,
        "ListAttempts": no_job(),
        "ListArtifacts": no_job(include_content=True),
        "ListJobDefinitions": is_everyones,
        "CancelJob": no_job(),
        "CancelJobs": touches_nothing,
        "RetryJob": no_job(),
        "RetryJobs": touches_nothing,
        "WatchJob": no_job(),
        "WatchJobs": watches_nothing,
        "EstimateBatch": is_everyones,
        "CreateBatch": needs_to_act_for_her(job_type="synthetic", inputs=[b"{}"]),
        "GetBatch": no_batch(),
        "ListBatches": lists_nothing,
        "ListBatchItems": no_batch(),
        "CancelBatch": no_batch(),
        "RetryBatchItems": no_batch(),
        "SelectBatchItems": no_batch(items=[1]),
        "AdvanceBatch": no_batch(state=batch_pb2.BATCH_STATE_EXPORTED),
        "WatchBatch": no_batch(),
        "ListEvents": needs(JOBS_ADMIN),
        "WatchEvents": needs(JOBS_ADMIN),
        "ExplainJob": no_job(),
        "ListQueues": needs(JOBS_ADMIN),
        "Pause": needs(JOBS_ADMIN, queue="drill"),
        "Resume": needs(JOBS_ADMIN, queue="drill"),
        "ListExecutors": needs(JOBS_ADMIN),
        "ListOutboxMessages": needs(JOBS_ADMIN),
        "ResendOutboxMessages": needs(JOBS_ADMIN),
        "ListAuditRecords": needs(JOBS_ADMIN),
    }
)
"""How Bob fares with each method. One that is added to the contract needs a row here."""


async def a_world(control: Control, *, of: str) -> World:
    ada, bob = f"ada-{of}", f"bob-{of}"
    job = (await control.stub.CreateJob(request_of("CreateJob", **A_JOB), metadata=by(ada))).job
    batch_fields = {"job_type": "synthetic", "inputs": [b"{}"] * 2, "labels": {"of": "ada"}}
    batch = (
        await control.stub.CreateBatch(request_of("CreateBatch", **batch_fields), metadata=by(ada))
    ).batch
    parts = [
        pb.UploadInputRequest(header=pb.UploadHeader(media_type="text/plain")),
        pb.UploadInputRequest(chunk=b"what Ada wrote"),
    ]
    upload = await control.stub.UploadInput(iter(parts), metadata=by(ada))
    return World(control, ada, bob, job.job_id, batch.batch_id, upload.upload_id)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("method", SCOPES)
async def test_no_method_lets_an_owner_at_what_is_anothers(method: str, shared_control: Control) -> None:
    world = await a_world(shared_control, of=method)
    await WALK[method](world, method)

    job = await world.control.stub.GetJob(request_of("GetJob", job_id=world.job_id), metadata=by(world.ada))
    assert job.job.state == job_pb2.JOB_STATE_QUEUED
    batch = await world.control.stub.GetBatch(
        request_of("GetBatch", batch_id=world.batch_id), metadata=by(world.ada)
    )
    assert batch.batch.state == batch_pb2.BATCH_STATE_QUEUED
    assert batch.batch.counters.waiting == 2


@pytest.mark.asyncio(loop_scope="module")
async def test_another_owners_upload_is_no_input(shared_control: Control) -> None:
    world = await a_world(shared_control, of="upload")
    given = f'{{"upload_id": "{world.upload_id}"}}'.encode()
    refusal = await refused(world.ask("CreateJob", job_type="document_import", input=given))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    no_upload = f'{{"upload_id": "{uuid4()}"}}'.encode()
    unknown = await refused(world.ask("CreateJob", job_type="document_import", input=no_upload))
    assert (refusal.reason, refusal.fields) == (unknown.reason, unknown.fields)

    request = request_of("CreateJob", job_type="document_import", input=given)
    assert await shared_control.stub.CreateJob(request, metadata=by(world.ada))


@pytest.mark.asyncio(loop_scope="module")
async def test_another_owners_key_is_free(shared_control: Control) -> None:
    fields = {**A_JOB, "idempotency_key": "the-same-key"}
    hers = await shared_control.stub.CreateJob(request_of("CreateJob", **fields), metadata=by("ada"))
    his = await shared_control.stub.CreateJob(request_of("CreateJob", **fields), metadata=by("bob"))
    assert not his.replayed
    assert his.job.job_id != hers.job.job_id


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("method", ["ListJobs", "WatchJobs", "CancelJobs", "RetryJobs", "ListBatches"])
async def test_only_an_admin_may_name_another_owner(method: str, shared_control: Control) -> None:
    named = {"owner": "ada"} if method == "ListBatches" else {"filter": pb.JobFilter(owner="ada")}
    call = getattr(shared_control.stub, method)(request_of(method, **named), metadata=by("bob"))
    assert (await refused(call)).metadata == {"scope": JOBS_ADMIN}
