"""Creates jobs in Baton over gRPC; one channel, as a backend would have."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import grpc

from bench import load
from bench.gathering import Gathering
from bench.work import Creator
from shared.gen.baton.v1.job_control_pb2 import CreateJobRequest, CreateJobsRequest
from shared.gen.baton.v1.job_control_pb2_grpc import JobControlStub

if TYPE_CHECKING:
    from shared.gen.baton.v1.job_control_pb2_grpc import JobControlAsyncStub

_request = partial(CreateJobRequest, job_type="synthetic")


@dataclass(frozen=True, slots=True)
class _Calls:
    stub: JobControlAsyncStub

    async def create(self, document: bytes) -> str:
        return (await self.stub.CreateJob(_request(input=document))).job.job_id

    async def create_many(self, documents: Sequence[bytes]) -> Sequence[str]:
        response = await self.stub.CreateJobs(
            CreateJobsRequest(jobs=[_request(input=each) for each in documents])
        )
        return [each.created.job.job_id for each in response.outcomes]


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Creates by the calls themselves, or gathers them first."""

    calls: _Calls
    gathering: Gathering | None

    async def create(self, document: bytes) -> str:
        return await (self.gathering or self.calls).create(document)

    async def create_many(self, documents: Sequence[bytes]) -> None:
        if not all(await self.calls.create_many(documents)):
            raise RuntimeError("an item of CreateJobs was refused")


@asynccontextmanager
async def opened(address: str, gathered: bool) -> AsyncIterator[Creator]:
    options = [("grpc.max_send_message_length", 16 << 20), ("grpc.max_receive_message_length", 16 << 20)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        await channel.channel_ready()
        calls = _Calls(JobControlStub(channel))
        yield _Jobs(calls, Gathering(calls.create_many) if gathered else None)


if __name__ == "__main__":
    try:
        load.main(opened)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
            raise
        sys.exit(load.NOT_SERVED)
