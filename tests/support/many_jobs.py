"""Many jobs over gRPC, and the database's own word on what became of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
import grpc

from shared.gen.baton.v1 import job_control_pb2, job_control_pb2_grpc

CALLS_AT_ONCE = 32
"""Enough to keep the service busy, few enough to leave the processor to it."""

_TRY_AGAIN_SECONDS = 0.2
_POLL_SECONDS = 0.25

AFTERWARDS: Mapping[str, str] = {
    "succeeded": "select count(*) from jobs where state = 'SUCCEEDED'",
    "projections": "select count(*) from synthetic_results",
    "successful attempts": "select count(*) from attempts where outcome = 'succeeded'",
    "dispatch rows": "select count(*) from outbox where event_type = 'job.dispatch'",
    "leases": "select count(*) from leases",
    "jobs whose events have gaps": (
        "select count(*) from (select j.job_id from jobs j join job_events e using (job_id)"
        " group by j.job_id, j.event_count"
        " having count(*) <> j.event_count or max(e.number) <> j.event_count) gaps"
    ),
}
"""What must be true once everything has ended, each a count."""


async def create(address: str, count: int, work: Mapping[str, Any], *, name: str) -> Sequence[str]:
    """Create `count` synthetic jobs by one call each, again after UNAVAILABLE, and return their ids.

    Args:
        name: Part of the idempotency keys, so that a repeated call makes no second job.
    """
    body = json.dumps(work).encode()
    gate = asyncio.Semaphore(CALLS_AT_ONCE)
    async with grpc.aio.insecure_channel(address) as channel:
        stub = job_control_pb2_grpc.JobControlStub(channel)

        async def one(number: int) -> str:
            request = job_control_pb2.CreateJobRequest(
                job_type="synthetic", input=body, idempotency_key=f"{name}-{number:08}"
            )
            async with gate:
                while True:
                    try:
                        response = await stub.CreateJob(request, timeout=20)
                    except grpc.aio.AioRpcError as error:
                        if error.code() is not grpc.StatusCode.UNAVAILABLE:
                            raise
                        await asyncio.sleep(_TRY_AGAIN_SECONDS)
                    else:
                        return str(response.job.job_id)

        return await asyncio.gather(*(one(number) for number in range(count)))


async def until(database_url: str, count_query: str, count: int, *, seconds: float) -> None:
    """Wait until a query counts at least `count`, through restarts of the database."""
    deadline = time.monotonic() + seconds
    found: object = None
    while time.monotonic() < deadline:
        try:
            found = await counted(database_url, count_query)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            found = repr(error)
        if isinstance(found, int) and found >= count:
            return
        await asyncio.sleep(_POLL_SECONDS)
    raise AssertionError(f"after {seconds} s: {found} instead of {count} of {count_query!r}")


async def counted(database_url: str, count_query: str) -> int:
    """Ask the database for one number."""
    connection = await asyncpg.connect(database_url, ssl=False)
    try:
        return int(await connection.fetchval(count_query))
    finally:
        await connection.close()


async def afterwards(database_url: str) -> Mapping[str, int]:
    """Return every count of `AFTERWARDS`."""
    return {name: await counted(database_url, query) for name, query in AFTERWARDS.items()}
