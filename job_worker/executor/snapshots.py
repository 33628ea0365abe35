"""Fetches inputs that are too large for a lease, and documents."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import grpc
import structlog

from job_worker.executor.broken_stream import StreamBroken, broken_streams
from job_worker.executor.held_lease import HeldLease
from shared.domain.errors import LeaseLost
from shared.domain.identity import JobId
from shared.gen.baton.v1.execution_service_pb2 import GetSnapshotRequest, Lease
from shared.runtime.loops import Backoff

if TYPE_CHECKING:
    from shared.gen.baton.v1.execution_service_pb2_grpc import ExecutionServiceAsyncStub

log = structlog.get_logger(__name__)

_BACKOFF = Backoff(base=timedelta(seconds=0.1), cap=timedelta(seconds=5))
_CALL_SECONDS_MAX = 60
"""A whole document; longer is a connection that stands still, and is tried again."""


def is_needed(lease: Lease) -> bool:
    """Whether a lease comes without all of its input."""
    return lease.HasField("document") or (lease.input_bytes > 0 and not lease.input)


class Snapshots:
    """Asks over a channel of its own, which does not go when a session goes elsewhere."""

    def __init__(self, stub: ExecutionServiceAsyncStub, metadata: Sequence[tuple[str, str]]) -> None:
        self._stub = stub
        self._metadata = metadata

    async def fill(self, held: HeldLease) -> None:
        """Put input and document into a lease, however often the service must be asked.

        Raises:
            LeaseLost: The service says so.
        """
        for failures in itertools.count(1):
            try:
                held.lease.input, held.document = await self._fetched(held)
            except StreamBroken as broken:
                if broken.code is grpc.StatusCode.FAILED_PRECONDITION:
                    raise LeaseLost(JobId(UUID(held.lease.job_id))) from broken
                log.warning("snapshot.not_fetched", job_id=held.lease.job_id, error=str(broken))
            else:
                return
            await asyncio.sleep(_BACKOFF.delay(failures, uniform=random.random()).total_seconds())

    async def _fetched(self, held: HeldLease) -> tuple[bytes, bytes]:
        call = self._stub.GetSnapshot(
            GetSnapshotRequest(lease=held.ref), metadata=tuple(self._metadata), timeout=_CALL_SECONDS_MAX
        )
        parts: dict[str | None, list[bytes]] = {"input_chunk": [], "document_chunk": []}
        with broken_streams():
            async for response in call:
                parts[response.WhichOneof("part")].append(response.input_chunk or response.document_chunk)
        return b"".join(parts["input_chunk"]), b"".join(parts["document_chunk"])
