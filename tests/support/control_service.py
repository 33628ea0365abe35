"""JobControl inside a test: the real service with all its loops, on a free port, with a channel to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import jwt
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from job_api import app
from job_api.settings import ApiSettings
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.jobs import Artifact
from shared.domain.scopes import ALL_SCOPES
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc, job_pb2
from shared.rpc.channel import channel_options
from shared.rpc.server import OpenServer
from shared.storage.database import open_engine
from shared.storage.state_changes import Ending
from shared.storage.transactions import Transactions
from tests.support import storage

SECRET = "a secret of these tests, at least 32 bytes"
_QUICK = {"poll_seconds": 0.1}
"""What no hint tells of, such as progress, is seen this soon."""

NO_JOB = "00000000-0000-7000-8000-000000000000"

_DETAILS = {
    each.DESCRIPTOR.full_name: each
    for each in (
        error_details_pb2.ErrorInfo,
        error_details_pb2.BadRequest,
        error_details_pb2.RetryInfo,
        error_details_pb2.PreconditionFailure,
        error_details_pb2.QuotaFailure,
    )
}


@dataclass(frozen=True, slots=True)
class Control:
    """A running service, a stub of it, and the same database for what executors do."""

    opened: OpenServer
    stub: Any
    transactions: Transactions

    async def create(self, job_type: str = "synthetic", input: bytes = b"{}", **fields: Any) -> job_pb2.Job:
        """Create a job and return it as the service shows it."""
        request = pb.CreateJobRequest(job_type=job_type, input=input, **fields)
        response: pb.CreateJobResponse = await self.stub.CreateJob(request)
        return response.job

    async def get(self, job_id: object) -> job_pb2.Job:
        response: pb.GetJobResponse = await self.stub.GetJob(pb.GetJobRequest(job_id=str(job_id)))
        return response.job

    def watch(self, job_id: object, **fields: Any) -> Any:
        return self.stub.WatchJob(pb.WatchJobRequest(job_id=str(job_id), **fields))


@asynccontextmanager
async def control_running(
    database_url: str, redis_url: str, redis_prefix: str, **settings: Any
) -> AsyncIterator[Control]:
    """Run the service, with what is named set differently."""
    values: dict[str, Any] = {
        "database_url": database_url,
        "redis_url": redis_url,
        "redis_prefix": redis_prefix,
        "control_address": "127.0.0.1:0",
        "grace_seconds": 5.0,
        **settings,
    }
    async with (
        open_engine(values.pop("executors_database_url", database_url), pool_size=5) as engine,
        app.service(ApiSettings(**values)) as opened,
        grpc.aio.insecure_channel(
            opened.address, options=channel_options(message_bytes_max=64 << 20)
        ) as channel,
    ):
        yield Control(opened, job_control_pb2_grpc.JobControlStub(channel), Transactions(engine))


async def hosted(
    database_url: str, redis_url: str, redis_prefix: str, **settings: str
) -> AsyncIterator[Control]:
    """Run the service in one task from start to stop: task groups are left by the task that entered them."""
    running: list[Control] = []
    started = asyncio.Event()
    stop = asyncio.Event()

    async def host() -> None:
        async with control_running(
            database_url, redis_url, redis_prefix, watch=_QUICK, **settings
        ) as control:
            running.append(control)
            started.set()
            await stop.wait()

    hosting = asyncio.create_task(host())
    hosting.add_done_callback(lambda _: started.set())
    await started.wait()
    if hosting.done():
        await hosting
    yield running[0]
    stop.set()
    await hosting


def bearing(subject: str, *scopes: str) -> tuple[tuple[str, str], ...]:
    """Metadata of a caller with these scopes, with all of them if none is named."""
    claims = {"sub": subject, "scopes": list(scopes or ALL_SCOPES), "exp": time.time() + 60}
    return (("authorization", f"Bearer {jwt.encode(claims, SECRET, algorithm='HS256')}"),)


def request_of(method: str, **fields: Any) -> Any:
    """Build a request; of `UploadInput`, the stream of its first message."""
    if method == "UploadInput":
        header = pb.UploadHeader(**{"media_type": "text/plain", **fields})
        return iter([pb.UploadInputRequest(header=header)])
    methods = pb.DESCRIPTOR.services_by_name["JobControl"].methods_by_name
    return getattr(pb, methods[method].input_type.name)(**fields)


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a call was refused, with the details by the names of their messages."""

    code: grpc.StatusCode
    message: str
    details: dict[str, Any]

    @property
    def reason(self) -> str:
        reason: str = self.details["google.rpc.ErrorInfo"].reason
        return reason

    @property
    def metadata(self) -> dict[str, str]:
        return dict(self.details["google.rpc.ErrorInfo"].metadata)

    @property
    def fields(self) -> list[str]:
        return [each.field for each in self.details["google.rpc.BadRequest"].field_violations]


async def refused(call: Any) -> Refusal:
    """Await a call that must fail; of a stream, its first message."""
    try:
        await (call.read() if hasattr(call, "read") else call)
    except grpc.aio.AioRpcError as error:
        status: status_pb2.Status | None = rpc_status.from_call(error)  # type: ignore[arg-type]
        details = status.details if status is not None else ()
        unpacked = {each.TypeName(): _DETAILS[each.TypeName()].FromString(each.value) for each in details}
        return Refusal(error.code(), error.details() or "", unpacked)
    raise AssertionError("the call was not refused")


async def listed_ids(control: Control, *, metadata: Any = (), **fields: Any) -> list[str]:
    """The ids of all pages of a list."""
    found: list[str] = []
    token = ""
    while True:
        request = pb.ListJobsRequest(page_token=token, **fields)
        page = await control.stub.ListJobs(request, metadata=metadata)
        found += [each.job_id for each in page.jobs]
        token = page.next_page_token
        if not token:
            return found


async def a_success(control: Control, artifacts: Sequence[Artifact]) -> str:
    """Run a job to its end, as a worker does."""
    lease = await storage.a_lease(control.transactions)
    async with control.transactions.begin() as transaction:
        ending = await storage.ending(transaction, lease.ref, AttemptEnd(AttemptOutcome.SUCCEEDED))
        ending = Ending(
            ending.lease,
            ending.end,
            ending.decision,
            output=b'{"items":1}',
            output_hash="ab" * 32,
            artifact_count=len(artifacts),
        )
        assert await transaction.states.end_attempts([ending])
        await transaction.artifacts.add({lease.ref.job_id: artifacts})
    return str(lease.ref.job_id)
