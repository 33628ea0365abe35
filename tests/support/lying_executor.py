"""An executor that keeps the protocol but for one lie; run as `python -m tests.support.lying_executor LIE`.

It does as much as is asked of every executor, in one event loop, and not more.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import signal
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any
from uuid import uuid4

import grpc
import rfc8785

from shared.gen.baton.v1 import execution_service_pb2 as pb
from shared.gen.baton.v1 import execution_service_pb2_grpc as pb_grpc
from shared.rpc.channel import channel_options

AT_ONCE = 4
BEAT_SECONDS = 0.8
GRACE_SECONDS = 2.5
ROOT_INCARNATION = "6f3f0d0e-2c39-4f1c-a2a5-4d4e3f6f2a11"


class Lie(StrEnum):
    """What it does not do, or does and must not."""

    NONE = "none"
    ONE_HEARTBEAT = "one-heartbeat"
    LOOSE_HASH = "loose-hash"
    LOST_REPORT = "lost-report"
    LATE_START = "late-start"
    OLD_INCARNATION = "old-incarnation"
    FORGOTTEN_REPORT = "forgotten-report"
    NO_MOVE = "no-move"
    UNSEEN_CANCEL = "unseen-cancel"
    NO_PAUSE = "no-pause"
    NO_GOODBYE = "no-goodbye"
    PIECES_ONCE = "pieces-once"
    PIECES_FROM_ZERO = "pieces-from-zero"
    NO_TIMEOUT = "no-timeout"
    CREDITS_TWICE = "credits-twice"


class Held:
    """One lease, its handler and its report."""

    def __init__(self, lease: pb.Lease) -> None:
        self.lease = lease
        self.ref = pb.LeaseRef(job_id=lease.job_id, token=lease.token)
        self.report: pb.Report | None = None
        self.task: asyncio.Task[None] | None = None
        self.stop = ""
        self.beats = 0
        self.pieces: list[pb.OutputPiece] = []


class LyingExecutor:
    """All of it, on one event loop."""

    def __init__(self, address: str, lie: Lie) -> None:
        self._address = address
        self._lie = lie
        self._incarnation = ROOT_INCARNATION if lie is Lie.OLD_INCARNATION else str(uuid4())
        self._held: dict[str, Held] = {}
        self._out = asyncio.Queue[pb.OpenSessionRequest | None]()
        self._beat_number = 0
        self._stub: Any = None
        self._draining = self._leaving = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(self._leave()))
        while not self._leaving:
            try:
                await self._session()
            except grpc.aio.AioRpcError as error:
                print(error.details(), flush=True)
            if self._lie is not Lie.NO_PAUSE:
                await asyncio.sleep(0.2 * random.random())

    async def _session(self) -> None:
        options = (*channel_options(message_bytes_max=16 << 20), ("grpc.use_local_subchannel_pool", 1))
        async with grpc.aio.insecure_channel(self._address, options=options) as channel:
            self._stub = pb_grpc.ExecutionServiceStub(channel)
            call = self._stub.OpenSession()
            if self._lie is Lie.FORGOTTEN_REPORT:
                self._held = {key: held for key, held in self._held.items() if held.report is None}
            held = [each.ref for each in self._held.values()]
            capability = pb.Capability(
                job_type="synthetic", input_schema_versions=[1], output_schema_versions=[1]
            )
            hello = pb.Hello(executor_name="liar", incarnation_id=self._incarnation, held=held)
            hello.capabilities.append(capability)
            await call.write(pb.OpenSessionRequest(hello=hello))
            first = await call.read()
            if first is grpc.aio.EOF:
                raise grpc.aio.AioRpcError(
                    await call.code(), grpc.aio.Metadata(), grpc.aio.Metadata(), details="no welcome"
                )
            self._out = asyncio.Queue()
            self._begin(first.welcome)
            tasks = [asyncio.create_task(self._write(call)), asyncio.create_task(self._beat())]
            try:
                while (frame := await call.read()) is not grpc.aio.EOF:
                    self._receive(frame)
                    if frame.HasField("drain") and self._lie is not Lie.NO_MOVE:
                        return
            finally:
                for task in tasks:
                    task.cancel()

    def _begin(self, welcome: pb.Welcome) -> None:
        for ref in welcome.lost:
            self._lose(ref)
        running = sum(each.report is None for each in self._held.values())
        if self._lie is Lie.CREDITS_TWICE:
            running = 0
        self._credit(AT_ONCE - running)
        for held in self._held.values():
            self._heartbeat(held)
            if held.pieces and self._lie is not Lie.PIECES_ONCE:
                self._send(pieces=held.pieces)
            if held.report is not None:
                self._send(reports=[held.report])

    def _receive(self, frame: pb.OpenSessionResponse) -> None:
        for recorded in frame.pieces_recorded:
            if (held := self._held.get(recorded.lease.job_id)) is not None:
                held.pieces = [each for each in held.pieces if each.number > recorded.number]
        for answer in frame.answers:
            self._held.pop(answer.lease.job_id, None)
        for ref in frame.lost:
            self._lose(ref)
        for lease in frame.leases:
            self._take(lease)
        for ref in frame.cancels:
            if self._lie is not Lie.UNSEEN_CANCEL:
                self._send(cancels_seen=[ref])
            self._stop(ref.job_id, "cancel")

    def _take(self, lease: pb.Lease) -> None:
        held = self._held[lease.job_id] = Held(lease)
        versions = (lease.job_type, lease.input_schema_version, lease.output_schema_version)
        if self._draining and self._lie is not Lie.LATE_START:
            self._report(held, give_back=pb.GiveBack(reason=pb.GIVE_BACK_REASON_DRAINING))
        elif versions != ("synthetic", 1, 1):
            self._report(held, give_back=pb.GiveBack(reason=pb.GIVE_BACK_REASON_REFUSED))
        else:
            self._heartbeat(held)
            held.task = asyncio.create_task(self._run(held))

    async def _run(self, held: Held) -> None:
        try:
            seconds = held.lease.time_left.ToTimedelta().total_seconds()
            async with asyncio.timeout(None if self._lie is Lie.NO_TIMEOUT else seconds):
                given = json.loads(await self._input(held))
                if not isinstance(given.get("items", 1), int | float):
                    failure = pb.Failure(code="INPUT_INVALID", message="items is no number")
                    self._report(held, failure=failure)
                    return
                await asyncio.sleep(given.get("duration_seconds", 0))
        except TimeoutError:
            self._report(held, failure=pb.Failure(code="TIMEOUT", message="its time was over"))
        except asyncio.CancelledError:
            self._report_stop(held)
        else:
            self._stream(held, given.get("pieces", 0))
            output = {"items": int(given.get("items", 1)), "attempt": held.lease.attempt}
            self._report(held, success=self._success(output, held.pieces))

    async def _input(self, held: Held) -> bytes:
        if held.lease.input and not held.lease.HasField("document"):
            return held.lease.input
        call = self._stub.GetSnapshot(pb.GetSnapshotRequest(lease=held.ref))
        return b"".join([part.input_chunk async for part in call])

    def _stream(self, held: Held, count: int) -> None:
        first = 0 if self._lie is Lie.PIECES_FROM_ZERO else 1
        held.pieces = [
            pb.OutputPiece(lease=held.ref, number=number, text=f"piece {number} ")
            for number in range(first, first + count)
        ]
        if held.pieces:
            self._send(pieces=held.pieces)

    def _success(self, output: Any, pieces: Sequence[pb.OutputPiece]) -> pb.Success:
        text = json.dumps(output).encode()
        hashed = text if self._lie is Lie.LOOSE_HASH else rfc8785.dumps(output)
        success = pb.Success(output=text, output_hash=hashlib.sha256(hashed).hexdigest())
        if pieces:
            success.piece_count = len(pieces)
            success.pieces_hash = hashlib.sha256("".join(each.text for each in pieces).encode()).hexdigest()
        return success

    def _report_stop(self, held: Held) -> None:
        if held.stop == "cancel":
            self._report(held, stopped=pb.Stopped())
        elif held.stop == "draining":
            self._report(held, give_back=pb.GiveBack(reason=pb.GIVE_BACK_REASON_DRAINING))

    def _report(self, held: Held, **end: Any) -> None:
        held.report = pb.Report(lease=held.ref, **end)
        self._send(reports=[held.report])
        self._credit(1)

    def _lose(self, ref: pb.LeaseRef) -> None:
        if self._lie is not Lie.LOST_REPORT and ref.job_id in self._held:
            self._stop(ref.job_id, "lost")
            if self._held.pop(ref.job_id).report is None:
                self._credit(1)

    def _stop(self, job_id: str, reason: str) -> None:
        held = self._held.get(job_id)
        if held is not None and held.report is None and held.task is not None:
            held.stop = held.stop or reason
            held.task.cancel()

    async def _leave(self) -> None:
        self._draining = True
        await self._emptied(GRACE_SECONDS)
        for job_id in list(self._held):
            self._stop(job_id, "draining")
        await self._emptied(2 * GRACE_SECONDS)
        self._leaving = True
        if self._lie is not Lie.NO_GOODBYE:
            self._send(goodbye=pb.Goodbye())
        self._out.put_nowait(None)

    async def _emptied(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while self._held and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110 - it is that simple
            await asyncio.sleep(0.02)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            for held in self._held.values():
                self._heartbeat(held)

    def _heartbeat(self, held: Held) -> None:
        held.beats += 1
        if self._lie is Lie.ONE_HEARTBEAT and held.beats > 1:
            return
        self._beat_number += 1
        self._send(heartbeats=[pb.Heartbeat(lease=held.ref)], heartbeat_number=self._beat_number)

    def _credit(self, count: int) -> None:
        if count > 0 and not self._draining:
            self._send(credits=[pb.Credit(queue="drill", count=count)])

    def _send(self, **fields: Any) -> None:
        self._out.put_nowait(pb.OpenSessionRequest(**fields))

    async def _write(self, call: Any) -> None:
        while (frame := await self._out.get()) is not None:
            await call.write(frame)
        await call.done_writing()


if __name__ == "__main__":
    asyncio.run(LyingExecutor(os.environ["BATON_EXECUTION_ADDRESS"], Lie(sys.argv[1])).run())
