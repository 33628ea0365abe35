"""An executor that does what a check says, over the real stream."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self
from uuid import uuid4

import grpc
import rfc8785
from google.protobuf.json_format import MessageToDict

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import execution_service_pb2_grpc as pb_grpc
from shared.rpc.channel import call_metadata
from verification.evidence.history import Frame, History
from verification.peers.channel import channel_to

LIMIT_SECONDS = 10.0
"""The longest wait for anything; a check that gets here has failed."""

SYNTHETIC = pb.Capability(job_type="synthetic", input_schema_versions=[1], output_schema_versions=[1])


class ScriptedExecutor:
    """One session; keeps every frame that it was sent."""

    def __init__(self, call: Any, *, name: str = "scripted", history: History | None = None) -> None:
        self.name = name
        self.welcome = pb.Welcome()
        self.incarnation_id = ""
        self.frames: list[pb.OpenSessionResponse] = []
        self.status: grpc.StatusCode | None = None
        self.error: grpc.aio.AioRpcError | None = None
        self._call = call
        self._session = f"{name} {uuid4().hex}"
        self._history = history
        self._beats = 0
        self._changed = asyncio.Condition()
        self._writing = asyncio.Lock()  # gRPC takes one write at a time
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def connected(
        cls,
        address: str,
        *,
        name: str = "scripted",
        history: History | None = None,
        token: str | None = None,
    ) -> AsyncIterator[Self]:
        """Open a stream on a connection of its own.

        Args:
            name: As it tells the service.
            history: Where every frame is written down, if anywhere.
        """
        async with channel_to(address) as channel:
            call = pb_grpc.ExecutionServiceStub(channel).OpenSession(metadata=call_metadata(token))
            executor = cls(call, name=name, history=history)
            try:
                yield executor
            finally:
                executor._call.cancel()
                if executor._reader is not None:
                    await asyncio.wait({executor._reader})

    async def hello(
        self,
        *,
        incarnation_id: str = "",
        capabilities: Sequence[pb.Capability] = (SYNTHETIC,),
        held: Sequence[pb.Lease] = (),
        credits: int = 0,
    ) -> pb.Welcome:
        """Say hello and wait for the welcome; credits are for the queue `drill`."""
        self.incarnation_id = incarnation_id or str(uuid4())
        message = pb.Hello(
            executor_name=self.name,
            incarnation_id=self.incarnation_id,
            capabilities=capabilities,
            held=[ref(each) for each in held],
        )
        await self.send(hello=message)
        self.listen()
        await self.until(lambda: self.frames)
        assert self.frames[0].HasField("welcome"), self.frames[0]
        self.welcome = self.frames.pop(0).welcome
        if credits:
            await self.credit(credits)
        return self.welcome

    def listen(self) -> None:
        """Begin to take in frames."""
        self._reader = asyncio.create_task(self._read())

    async def send(self, **fields: Any) -> None:
        await self.send_frame(pb.OpenSessionRequest(**fields))

    async def send_frame(self, frame: pb.OpenSessionRequest) -> None:
        async with self._writing:
            self._note(frame, sent=True)
            await self._call.write(frame)

    async def credit(self, count: int, queue: str = "drill") -> None:
        await self.send(credits=[pb.Credit(queue=queue, count=count)])

    async def report(self, *reports: pb.Report) -> list[pb.ReportAnswer]:
        """Send reports in one frame and wait for their answers, in the order of the reports.

        Answers to reports about the same lease are taken in the order in which they come.
        """
        before = {each.lease.token: len(self.answers_of(each.lease)) for each in reports}
        due = Counter(before) + Counter(each.lease.token for each in reports)
        await self.send(reports=reports)
        await self.until(
            lambda: all(len(self.answers_of(each.lease)) >= due[each.lease.token] for each in reports)
        )
        answers = {
            each.lease.token: iter(self.answers_of(each.lease)[before[each.lease.token] :])
            for each in reports
        }
        return [next(answers[each.lease.token]) for each in reports]

    @asynccontextmanager
    async def beating(self, lease: pb.Lease, *, seconds: float = 0.5) -> AsyncIterator[None]:
        """Send heartbeats for a lease while the block runs; the first one is recorded before it begins."""
        await self.beat(heartbeat(lease))
        task = asyncio.create_task(self._keep_beating(lease, seconds))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _keep_beating(self, lease: pb.Lease, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self.send(heartbeats=[heartbeat(lease)])

    async def beat(self, *heartbeats: pb.Heartbeat) -> None:
        """Send heartbeats in one frame, and wait until they are recorded."""
        self._beats += 1
        await self.send(heartbeats=heartbeats, heartbeat_number=self._beats)
        await self.until(lambda: self.heartbeats_recorded >= self._beats)

    async def succeed(self, lease: pb.Lease, document: Any = None, **fields: Any) -> pb.ReportAnswer:
        (answer,) = await self.report(success(lease, document, **fields))
        return answer

    async def fail(self, lease: pb.Lease, code: str = "PROVIDER_TIMEOUT", **fields: Any) -> pb.ReportAnswer:
        (answer,) = await self.report(failure(lease, code, **fields))
        return answer

    async def lease(self) -> pb.Lease:
        """Wait for the first lease."""
        return (await self.leases_when(1))[0]

    async def leases_when(self, count: int) -> list[pb.Lease]:
        """Wait until so many leases have come."""
        await self.until(lambda: len(self.leases) >= count)
        return self.leases

    async def goodbye(self) -> None:
        """Say goodbye, and wait for the service to end the stream."""
        await self.send(goodbye=pb.Goodbye())
        await self._call.done_writing()
        await self.until_over()

    async def half_close(self) -> None:
        await self._call.done_writing()

    async def until_over(self) -> grpc.StatusCode:
        """Wait for the stream's end and return its status."""
        await self.until(lambda: self.status is not None)
        assert self.status is not None
        return self.status

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until what was received fulfils a condition."""
        async with asyncio.timeout(LIMIT_SECONDS), self._changed:
            await self._changed.wait_for(condition)

    def answers_of(self, lease: pb.LeaseRef) -> list[pb.ReportAnswer]:
        return [each for each in self.answers if each.lease.token == lease.token]

    @property
    def leases(self) -> list[pb.Lease]:
        return [each for frame in self.frames for each in frame.leases]

    @property
    def answers(self) -> list[pb.ReportAnswer]:
        return [each for frame in self.frames for each in frame.answers]

    @property
    def cancels(self) -> list[pb.LeaseRef]:
        return [each for frame in self.frames for each in frame.cancels]

    @property
    def lost(self) -> list[pb.LeaseRef]:
        return [each for frame in self.frames for each in frame.lost]

    @property
    def pieces_recorded(self) -> list[int]:
        return [each.number for frame in self.frames for each in frame.pieces_recorded]

    @property
    def heartbeats_recorded(self) -> int:
        return max((frame.heartbeats_recorded for frame in self.frames), default=0)

    @property
    def drained(self) -> bool:
        return any(frame.HasField("drain") for frame in self.frames)

    def _note(self, frame: pb.OpenSessionRequest | pb.OpenSessionResponse, *, sent: bool) -> None:
        if self._history is not None:
            content, time = MessageToDict(frame), self._history.now()
            self._history.frames.append(Frame(self._session, sent, content, time))

    async def _read(self) -> None:
        with suppress(asyncio.CancelledError):
            try:
                while (frame := await self._call.read()) is not grpc.aio.EOF:
                    self._note(frame, sent=False)
                    async with self._changed:
                        self.frames.append(frame)
                        self._changed.notify_all()
            except grpc.aio.AioRpcError as error:
                self.error = error
            status = await self._call.code()
            async with self._changed:
                self.status = status
                self._changed.notify_all()


def ref(lease: pb.Lease) -> pb.LeaseRef:
    return pb.LeaseRef(job_id=lease.job_id, token=lease.token)


def success(lease: pb.Lease, document: Any = None, **fields: Any) -> pb.Report:
    """A report of an output, by default one that fits the job type `synthetic`."""
    return pb.Report(lease=ref(lease), success=success_of(lease, document, **fields))


def success_of(lease: pb.Lease, document: Any = None, **fields: Any) -> pb.Success:
    document = {"items": 1, "attempt": lease.attempt} if document is None else document
    values = {
        "output": json.dumps(document).encode(),
        "output_hash": hashlib.sha256(rfc8785.dumps(document)).hexdigest(),
    }
    return pb.Success(**{**values, **fields})


def failure(lease: pb.Lease, code: str = "PROVIDER_TIMEOUT", **fields: Any) -> pb.Report:
    return pb.Report(lease=ref(lease), failure=pb.Failure(code=code, message="it did not work", **fields))


def stopped(lease: pb.Lease, *, killed: bool = False) -> pb.Report:
    return pb.Report(lease=ref(lease), stopped=pb.Stopped(killed=killed))


def give_back(lease: pb.Lease, reason: pb.GiveBackReason.ValueType, *, alone: bool = False) -> pb.Report:
    return pb.Report(lease=ref(lease), give_back=pb.GiveBack(reason=reason, alone=alone))


def heartbeat(lease: pb.Lease, **fields: Any) -> pb.Heartbeat:
    return pb.Heartbeat(lease=ref(lease), **fields)


def pieces(lease: pb.Lease, *texts: str, first: int = 1) -> list[pb.OutputPiece]:
    return [
        pb.OutputPiece(lease=ref(lease), number=number, text=text)
        for number, text in enumerate(texts, start=first)
    ]


def hash_of(*texts: str) -> str:
    return hashlib.sha256("".join(texts).encode()).hexdigest()
