"""An ExecutionService without a database: a check says what it sends, and reads what an executor sent."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import grpc

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import execution_service_pb2_grpc as pb_grpc
from verification.peers.executor import ref

LIMIT_SECONDS = 20.0
"""Longer than anything that a check waits for, on a machine that is busy with others."""

_tokens = itertools.count(1)


def a_lease(job_type: str = "synthetic", given: Any = None, **fields: Any) -> pb.Lease:
    """Make a lease; times are seconds, and short."""
    seconds = {"time_left": 30.0, "grace": 1.0, "heartbeat_interval": 0.2, "lease_duration": 0.6}
    seconds |= {name: fields.pop(name) for name in seconds.keys() & fields.keys()}
    given = json.dumps(given or {}).encode()
    values = {
        "job_id": str(uuid4()),
        "token": f"1.secret-{next(_tokens)}",
        "attempt": 1,
        "job_type": job_type,
        "queue": "drill",
        "input_schema_version": 1,
        "output_schema_version": 1,
        "input": given,
        "input_bytes": len(given),
        "cancellable": True,
        "output_bytes_max": 1024 * 1024,
    }
    lease = pb.Lease(**{**values, **fields})
    for name, value in seconds.items():
        getattr(lease, name).FromTimedelta(timedelta(seconds=value))
    return lease


async def until(condition: Callable[[], object]) -> None:
    """Wait for what another process does, of which no event tells."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the other process has no event of ours
            await asyncio.sleep(0.01)


class ScriptedSession:
    """One stream: everything that was received, and what to send.

    Attributes:
        first: The frame that was to hold the hello; it is not among the `frames`.
        granted: How many leases were sent.
        answering: Whether anything is answered by itself.
        answering_reports: Whether reports are, if anything is; all of them are accepted.
        recording_pieces: Whether pieces are, if anything is.
    """

    def __init__(self, first: pb.OpenSessionRequest, context: Any, *, answering: bool) -> None:
        self.first = first
        self.hello = first.hello
        self.frames: list[pb.OpenSessionRequest] = []
        self.granted = 0
        self.answering = answering
        self.answering_reports = True
        self.recording_pieces = True
        self.ended = asyncio.Event()
        self._context = context
        self._changed = asyncio.Condition()
        self._writing = asyncio.Lock()  # gRPC takes one write at a time
        self._status: grpc.StatusCode | None = None
        self._finished = asyncio.Event()

    async def welcome(self, **fields: Any) -> None:
        await self.send(welcome=pb.Welcome(session_id=str(uuid4()), **fields))

    async def send(self, **fields: Any) -> None:
        await self.send_frame(pb.OpenSessionResponse(**fields))

    async def send_frame(self, frame: pb.OpenSessionResponse) -> None:
        await self._write(frame)

    async def grant(self, *leases: pb.Lease) -> None:
        self.granted += len(leases)
        await self.send(leases=leases)

    def finish(self, status: grpc.StatusCode | None = None) -> None:
        """End the stream: well, or with a status."""
        self._status = status
        self._finished.set()

    @property
    def heartbeats(self) -> list[pb.Heartbeat]:
        return [each for frame in self.frames for each in frame.heartbeats]

    @property
    def reports(self) -> list[pb.Report]:
        return [each for frame in self.frames for each in frame.reports]

    @property
    def pieces(self) -> list[pb.OutputPiece]:
        return [each for frame in self.frames for each in frame.pieces]

    @property
    def cancels_seen(self) -> list[pb.LeaseRef]:
        return [each for frame in self.frames for each in frame.cancels_seen]

    def credits(self, queue: str = "drill") -> int:
        return sum(each.count for frame in self.frames for each in frame.credits if each.queue == queue)

    def heartbeats_of(self, lease: pb.Lease) -> list[pb.Heartbeat]:
        return [each for each in self.heartbeats if each.lease == ref(lease)]

    def reports_of(self, lease: pb.Lease) -> list[pb.Report]:
        return [each for each in self.reports if each.lease == ref(lease)]

    async def until(self, condition: Callable[[], object], *, seconds: float = LIMIT_SECONDS) -> None:
        """Wait until what was received fulfils a condition."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(condition)

    async def report_of(self, lease: pb.Lease) -> pb.Report:
        await self.until(lambda: self.reports_of(lease))
        return self.reports_of(lease)[0]

    async def serve(self) -> None:
        """Take in frames until either side ends the stream."""
        reading = asyncio.create_task(self._read())
        finishing = asyncio.create_task(self._finished.wait())
        try:
            await asyncio.wait({reading, finishing}, return_when=asyncio.FIRST_COMPLETED)
            await self._writing.acquire()  # for ever: the end is the last word
            if self._status is not None:
                await self._context.abort(self._status, "as the check says")
        finally:
            reading.cancel()
            finishing.cancel()
            self.ended.set()

    async def _read(self) -> None:
        while (frame := await self._context.read()) is not grpc.aio.EOF:
            if self.answering:
                await self._answer(frame)
            async with self._changed:
                self.frames.append(frame)
                self._changed.notify_all()

    async def _answer(self, frame: pb.OpenSessionRequest) -> None:
        response = pb.OpenSessionResponse(heartbeats_recorded=frame.heartbeat_number)
        for report in frame.reports if self.answering_reports else ():
            response.answers.add(lease=report.lease, outcome=pb.REPORT_OUTCOME_ACCEPTED)
        for piece in frame.pieces if self.recording_pieces else ():
            response.pieces_recorded.add(lease=piece.lease, number=piece.number)
        if response.ByteSize():
            await self._write(response)

    async def _write(self, response: pb.OpenSessionResponse) -> None:
        async with self._writing:
            await self._context.write(response)


class ScriptedService(pb_grpc.ExecutionServiceServicer):
    """Sessions in the order of their hellos, and snapshots by lease."""

    def __init__(self) -> None:
        self.address = ""
        self.answering = True
        self.snapshots: dict[str, tuple[bytes, bytes]] = {}
        self.snapshot_calls: list[str] = []
        self._sessions: asyncio.Queue[ScriptedSession] = asyncio.Queue()

    async def session(self, *, seconds: float = LIMIT_SECONDS) -> ScriptedSession:
        """Wait for the next hello; it has not been answered yet."""
        async with asyncio.timeout(seconds):
            return await self._sessions.get()

    async def welcomed(self, **fields: Any) -> ScriptedSession:
        session = await self.session()
        await session.welcome(**fields)
        return session

    async def OpenSession(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        first = await context.read()
        if first is grpc.aio.EOF:
            first = pb.OpenSessionRequest()
        session = ScriptedSession(first, context, answering=self.answering)
        self._sessions.put_nowait(session)
        await session.serve()

    async def GetSnapshot(
        self, request: pb.GetSnapshotRequest, context: Any
    ) -> AsyncIterator[pb.GetSnapshotResponse]:
        self.snapshot_calls.append(request.lease.job_id)
        if request.lease.job_id not in self.snapshots:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the lease has ended")
        given, document = self.snapshots[request.lease.job_id]
        for part in _parts(given):
            yield pb.GetSnapshotResponse(input_chunk=part)
        for part in _parts(document):
            yield pb.GetSnapshotResponse(document_chunk=part)

    async def ReportResult(self, request: pb.ReportResultRequest, context: Any) -> pb.ReportResultResponse:
        raise NotImplementedError

    async def ReportFailure(self, request: pb.ReportFailureRequest, context: Any) -> pb.ReportFailureResponse:
        raise NotImplementedError


def _parts(content: bytes, size: int = 64 * 1024) -> Sequence[bytes]:
    return [content[start : start + size] for start in range(0, len(content), size)]


@asynccontextmanager
async def scripted_service() -> AsyncIterator[ScriptedService]:
    service = ScriptedService()
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    pb_grpc.add_ExecutionServiceServicer_to_server(service, server)
    service.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield service
    finally:
        await server.stop(None)
