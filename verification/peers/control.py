"""A caller of JobControl whose every call and answer is written down."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import grpc
from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc, job_pb2
from shared.rpc.channel import call_metadata
from verification.evidence.history import LEFT, OK, Call, History, Told
from verification.evidence.tables import LABEL
from verification.peers.channel import channel_to
from verification.unmet import Unmet

TIMEOUT_SECONDS = 20.0
"""Of one call; services answer far sooner, with UNAVAILABLE if they must."""
PATIENCE_SECONDS = 120.0
"""How long a call is repeated while the service is away, and how long a watch is resumed."""

_AGAIN_SECONDS = 0.2
_STATUS_DETAILS = "grpc-status-details-bin"
AWAY = frozenset({"UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"})
"""How calls and streams end that are worth another try."""


class Refused(Exception):
    """The service answered with an error.

    Attributes:
        status: gRPC's name of it.
        reason: Of the engine; empty without one.
        metadata: What the reason is about, for example `job_id`; empty without one.
        details: All of `google.rpc.Status`.
    """

    def __init__(self, method: str, error: grpc.aio.AioRpcError) -> None:
        self.status = error.code().name
        self.details = Status()
        for key, value in error.trailing_metadata() or ():
            if key == _STATUS_DETAILS:
                self.details.ParseFromString(value)
        info = self._info()
        self.reason = info.reason
        self.metadata = dict(info.metadata)
        super().__init__(f"{method}: {self.status} {self.reason}: {error.details()}")

    def _info(self) -> ErrorInfo:
        info = ErrorInfo()
        return next((info for each in self.details.details if each.Unpack(info)), info)


class Control:
    """Calls as one caller; may be used by many tasks at once."""

    def __init__(
        self, channel: grpc.aio.Channel, history: History, *, run: str, token: str | None, caller: str
    ) -> None:
        self._channel = channel
        self._stub = job_control_pb2_grpc.JobControlStub(channel)
        self._history = history
        self._metadata = call_metadata(token)
        self._caller = caller
        self.run = run

    async def call(self, method: str, request: Message, *, seconds: float = TIMEOUT_SECONDS) -> Any:
        """Call once and return the answer.

        Raises:
            Refused: The service answered with an error, or not at all.
        """
        begin = self._history.now()
        try:
            response = await getattr(self._stub, method)(request, timeout=seconds, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            refused = Refused(method, error)
            self._note(method, request, begin, status=refused.status, reason=refused.reason)
            raise refused from None
        except asyncio.CancelledError:
            self._note(method, request, begin, status=LEFT)
            raise
        self._note(method, request, begin, response=response)
        return response

    async def insist(self, method: str, request: Message, *, seconds: float = PATIENCE_SECONDS) -> Any:
        """Call until the service answers; only for what is safe to repeat.

        Raises:
            Refused: It said no, or was away all the time.
        """
        deadline = self._history.now() + seconds
        while True:
            try:
                return await self.call(method, request)
            except Refused as refused:
                if refused.status not in AWAY or self._history.now() > deadline:
                    raise
            await asyncio.sleep(_AGAIN_SECONDS * (0.5 + random.random()))

    async def create(self, work: Mapping[str, Any] | None = None, **fields: Any) -> job_pb2.Job:
        """Create a synthetic job, and insist until it is acknowledged; the key makes that safe.

        Args:
            work: Its input document.
            fields: Of the request, in place of what is set here.
        """
        response = await self.insist("CreateJob", self.creation(work, **fields))
        return response.job  # type: ignore[no-any-return]

    def creation(self, work: Mapping[str, Any] | None = None, **fields: Any) -> pb.CreateJobRequest:
        """Make a request for a synthetic job of this run, with a key of its own unless one is given."""
        told: dict[str, Any] = {
            "job_type": "synthetic",
            "input": json.dumps(work or {}).encode(),
            "idempotency_key": uuid4().hex,
            "labels": {LABEL: self.run},
        }
        return pb.CreateJobRequest(**{**told, **fields})

    async def get(self, job_id: str) -> job_pb2.Job:
        response = await self.insist("GetJob", pb.GetJobRequest(job_id=job_id))
        return response.job  # type: ignore[no-any-return]

    async def cancel(self, job_id: str) -> job_pb2.Job:
        response = await self.insist("CancelJob", pb.CancelJobRequest(job_id=job_id))
        return response.job  # type: ignore[no-any-return]

    async def attempts(self, job_id: str) -> Sequence[job_pb2.Attempt]:
        """Return all attempts of a job, first to last."""
        response = await self.insist("ListAttempts", pb.ListAttemptsRequest(job_id=job_id, page_size=1_000))
        return response.attempts  # type: ignore[no-any-return]

    async def watch(
        self, job_id: str, *, name: str = "", cursor: str = "", after_event_number: int = 0
    ) -> AsyncGenerator[pb.WatchJobResponse, None]:
        """Watch once, from a cursor on, to the end of the stream; keep-alives are passed over.

        Raises:
            Refused: The stream broke, or was refused.
        """
        watch = name or uuid4().hex
        request = pb.WatchJobRequest(job_id=job_id, cursor=cursor, after_event_number=after_event_number)
        stream = self._stub.WatchJob(request, metadata=self._metadata)
        try:
            async for update in stream:
                if not update.HasField("keep_alive"):
                    told = Told(watch, job_id, _json(update), self._history.now())
                    self._history.told.append(told)
                    yield update
        except grpc.aio.AioRpcError as error:
            raise Refused("WatchJob", error) from None
        finally:
            stream.cancel()

    async def streamed(self, method: str, request: Message) -> AsyncGenerator[Any, None]:
        """Call what answers with a stream, and yield what comes; nothing of it is written down.

        Raises:
            Refused: The stream broke, or was refused.
        """
        stream = getattr(self._stub, method)(request, metadata=self._metadata)
        try:
            async for update in stream:
                yield update
        except grpc.aio.AioRpcError as error:
            raise Refused(method, error) from None
        finally:
            stream.cancel()

    async def watch_to_end(
        self, job_id: str, *, name: str = "", cursor: str = "", seconds: float = PATIENCE_SECONDS
    ) -> Sequence[pb.WatchJobResponse]:
        """Watch until the job's last event, resume whenever the stream breaks, and return all that was told.

        Raises:
            Unmet: The job has not ended in this time.
        """
        watch = name or uuid4().hex
        updates: list[pb.WatchJobResponse] = []
        try:
            async with asyncio.timeout(seconds):
                while not _is_last(updates):
                    cursor = updates[-1].cursor if updates else cursor
                    try:
                        async for update in self.watch(job_id, name=watch, cursor=cursor):
                            updates.append(update)
                    except Refused as refused:
                        if refused.status not in AWAY:
                            raise
                        await asyncio.sleep(_AGAIN_SECONDS)
        except TimeoutError:
            raise Unmet(f"job {job_id} did not end within {seconds:.0f} s") from None
        return updates

    async def until_ended(self, job_id: str, *, seconds: float = PATIENCE_SECONDS) -> job_pb2.Job:
        """Watch a job to its end, and return it as it is then.

        Raises:
            Unmet: It has not ended in this time.
        """
        await self.watch_to_end(job_id, seconds=seconds)
        return await self.get(job_id)

    def _note(
        self,
        method: str,
        request: Message,
        begin: float,
        *,
        response: Message | None = None,
        status: str = OK,
        reason: str = "",
    ) -> None:
        answer = None if response is None else _json(response)
        call = Call(self._caller, method, _json(request), answer, status, reason, begin, self._history.now())
        self._history.calls.append(call)


@asynccontextmanager
async def calling(
    address: str, history: History, *, run: str, token: str | None = None, caller: str = ""
) -> AsyncIterator[Control]:
    """Open a connection of its own to JobControl.

    Args:
        run: Names the run; all its jobs are labelled with it.
        caller: Stands in the history for who calls; the run's name if it is empty.
    """
    async with channel_to(address) as channel:
        yield Control(channel, history, run=run, token=token, caller=caller or run)


def _json(message: Message) -> Mapping[str, Any]:
    try:
        return MessageToDict(message)
    except SerializeToJsonError:  # a point in time that is none has no JSON form
        return {"unrenderable": str(message)}


def _is_last(updates: Sequence[pb.WatchJobResponse]) -> bool:
    return (
        bool(updates)
        and updates[-1].HasField("ended")
        and updates[-1].ended.reason == pb.WATCH_END_REASON_FINISHED
    )
