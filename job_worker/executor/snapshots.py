"""Fetches inputs that are too large for a lease, and documents."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import timedelta
from uuid import UUID

import grpc
import structlog

from job_worker.executor.broken_stream import StreamBroken, broken_streams
from job_worker.executor.dialling import Way
from job_worker.executor.held_lease import HeldLease
from shared.domain.errors import LeaseLost
from shared.domain.identity import JobId
from shared.gen.baton.v1.execution_service_pb2 import GetSnapshotRequest, Lease
from shared.gen.baton.v1.execution_service_pb2_grpc import ExecutionServiceStub
from shared.runtime.faults import StartupFault
from shared.runtime.loops import Backoff

log = structlog.get_logger(__name__)

_BACKOFF = Backoff(base=timedelta(seconds=0.1), cap=timedelta(seconds=5))
_CALL_SECONDS_MAX = 60
"""A whole document; longer is a connection that stands still, and is tried again."""


def is_needed(lease: Lease) -> bool:
    """Whether a lease comes without all of its input."""
    return lease.HasField("document") or (lease.input_bytes > 0 and not lease.input)


class Snapshots:
    """Asks over a channel of its own, which does not go when a session goes elsewhere."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._channel: grpc.aio.Channel | None = None

    async def close(self) -> None:
        """End the connection; the next question dials anew, with the certificate that there is then."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

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
                if broken.code is grpc.StatusCode.UNAVAILABLE:
                    await self.close()
            else:
                return
            await asyncio.sleep(_BACKOFF.delay(failures, uniform=random.random()).total_seconds())

    async def _fetched(self, held: HeldLease) -> tuple[bytes, bytes]:
        call = ExecutionServiceStub(self._dialled()).GetSnapshot(
            GetSnapshotRequest(lease=held.ref),
            metadata=tuple(self._way.metadata),
            timeout=_CALL_SECONDS_MAX,
        )
        parts: dict[str | None, list[bytes]] = {"input_chunk": [], "document_chunk": []}
        with broken_streams():
            async for response in call:
                parts[response.WhichOneof("part")].append(response.input_chunk or response.document_chunk)
        return b"".join(parts["input_chunk"]), b"".join(parts["document_chunk"])

    def _dialled(self) -> grpc.aio.Channel:
        if self._channel is None:
            try:
                self._channel = self._way.channel()
            except StartupFault as fault:
                raise StreamBroken(str(fault)) from None
        return self._channel
