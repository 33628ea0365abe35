"""ExecutionService inside a test: the real service with all its loops, on a free port, and jobs for it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import sqlalchemy as sa

from job_api.loops.outbox_dispatcher import OutboxDispatcher
from job_worker import app
from job_worker.settings import SessionSettings, WorkerSettings
from shared.domain.events import JobEvent
from shared.domain.identity import JobId, Owner, UploadId
from shared.domain.jobs import Artifact, Job
from shared.gen.baton.v1 import execution_service_pb2_grpc as pb_grpc
from shared.rpc.channel import channel_options
from shared.runtime.ids import new_id
from shared.storage.database import open_engine
from shared.storage.transactions import Transactions
from shared.streams.connection import open_redis
from shared.streams.lease_streams import LeaseStreams
from shared.streams.wake_ups import WakeUps
from tests.support.storage import new_job, the_job
from verification.peers.executor import LIMIT_SECONDS, ScriptedExecutor

QUICK: dict[str, Any] = {"heartbeat_flush_seconds": 0.05, "drain_seconds": 1.0}


@dataclass(frozen=True, slots=True)
class Execution:
    """A running service, and the same database and streams for what callers and JobControl do."""

    address: str
    stub: Any
    transactions: Transactions
    streams: LeaseStreams
    wake_ups: WakeUps
    executors: AsyncExitStack

    async def job(self, **fields: Any) -> JobId:
        """Create a job and dispatch it."""
        (job_id,) = await self.jobs(1, **fields)
        return job_id

    async def jobs(self, count: int, **fields: Any) -> list[JobId]:
        """Create jobs and dispatch as many as the streams take."""
        jobs = [new_job(**fields) for _ in range(count)]
        async with self.transactions.begin() as transaction:
            await transaction.creation.create_jobs(jobs)
        await self.dispatch()
        return [each.job_id for each in jobs]

    async def dispatch(self) -> None:
        """Do what JobControl's dispatcher does, until it has nothing to do."""
        dispatcher = OutboxDispatcher(self.transactions, self.streams)
        while await dispatcher.step():
            pass

    async def dispatch_until(self, condition: Callable[[], bool]) -> None:
        """Go on dispatching, as JobControl does, until something is true."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while not condition():
                await self.dispatch()
                await asyncio.sleep(0.05)

    async def until_event(self, job_id: JobId, kind: str) -> None:
        """Wait until a job has an event of a kind."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while kind not in {each.kind for each in await self.events(job_id)}:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)

    async def until_row(self, statement: str) -> None:
        """Wait until a query finds something."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while not await self.rows(statement):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)

    async def upload(self, *chunks: bytes) -> UploadId:
        """Upload a document of these chunks."""
        upload_id = UploadId(new_id())
        async with self.transactions.begin() as transaction:
            owner = Owner("owner")
            await transaction.uploads.begin(upload_id, owner, media_type="text/plain", file_name="notes.txt")
            for number, chunk in enumerate(chunks, start=1):
                await transaction.uploads.add_chunk(upload_id, number, chunk)
            content = b"".join(chunks)
            sha256 = hashlib.sha256(content).hexdigest()
            await transaction.uploads.complete(upload_id, document_bytes=len(content), sha256=sha256)
        return upload_id

    async def make_due(self, job_id: JobId) -> None:
        """Let a job that backs off be due, and dispatch it."""
        await self.execute(
            "update outbox set available_time = engine_time() where aggregate_id = :job_id", job_id=job_id
        )
        await self.dispatch()

    async def make_due_when_waiting(self, job_id: JobId) -> None:
        """Wait until a job's attempt has ended, then let the next one be due."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while (await self.read(job_id)).next_attempt_time is None:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        await self.make_due(job_id)

    async def executor(self, **hello: Any) -> ScriptedExecutor:
        """Connect an executor that has said hello and was welcomed."""
        executor = await self.executors.enter_async_context(ScriptedExecutor.connected(self.address))
        await executor.hello(**hello)
        return executor

    async def read(self, job_id: JobId) -> Job:
        return await the_job(self.transactions, job_id)

    async def events(self, job_id: JobId) -> list[JobEvent]:
        async with self.transactions.begin() as transaction:
            return await transaction.events.after({job_id: 0}, limit=1_000)

    async def outcomes(self, job_id: JobId) -> list[str]:
        """Return how a job's attempts have ended, first to last."""
        rows = await self.rows(
            "select outcome from attempts where job_id = :job_id order by attempt", job_id=job_id
        )
        return [row.outcome for row in rows]

    async def artifacts(self, job_id: JobId) -> list[Artifact]:
        async with self.transactions.begin() as transaction:
            return await transaction.artifacts.page(job_id, after=0, limit=1_000, include_content=True)

    async def cancel(self, job_id: JobId) -> None:
        """Do what JobControl does for a leased job."""
        async with self.transactions.begin() as transaction:
            await transaction.leases.request_cancels([job_id])
        await self.wake_ups.cancels_requested([job_id])

    async def rows(self, statement: str, **parameters: Any) -> list[Any]:
        async with self.transactions.begin() as transaction:
            return list(await transaction.connection.execute(sa.text(statement), parameters))

    async def execute(self, statement: str, **parameters: Any) -> None:
        async with self.transactions.begin() as transaction:
            await transaction.connection.execute(sa.text(statement), parameters)


@asynccontextmanager
async def execution_running(
    database_url: str,
    redis_url: str,
    redis_prefix: str,
    *,
    sessions: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Execution]:
    """Run the service, with what is named set differently; callers may have ways of their own to servers."""
    values: dict[str, Any] = {
        "database_url": database_url,
        "redis_url": redis_url,
        "redis_prefix": redis_prefix,
        "execution_address": "127.0.0.1:0",
        "sessions": SessionSettings(**(QUICK | (sessions or {}))),
        **settings,
    }
    async with (
        open_engine(values.pop("callers_database_url", database_url), pool_size=5) as engine,
        open_redis(values.pop("callers_redis_url", redis_url)) as redis,
        app.service(WorkerSettings(**values)) as opened,
        grpc.aio.insecure_channel(
            opened.address, options=channel_options(message_bytes_max=64 << 20)
        ) as channel,
        AsyncExitStack() as executors,
    ):
        yield Execution(
            opened.address,
            pb_grpc.ExecutionServiceStub(channel),
            Transactions(engine),
            LeaseStreams(redis, prefix=redis_prefix),
            WakeUps(redis, prefix=redis_prefix),
            executors,
        )
