"""What is checked: services that run somewhere, of which nothing is known but their addresses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from shared.gen.baton.v1 import execution_service_pb2_grpc, job_control_pb2_grpc, job_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.rpc.channel import call_metadata
from verification.evidence.history import History
from verification.evidence.tables import LABEL
from verification.peers.channel import channel_to
from verification.peers.control import TIMEOUT_SECONDS, Control, Refused, calling
from verification.unmet import Unmet

NEVER_DUE = Timestamp(seconds=4_102_444_800)
"""A run time in the year 2100: no executor takes such a job, whatever else is connected."""

_EVENTS_SECONDS_MAX = 10.0


class NotJudged(Exception):
    """What runs there keeps a check from finding out, through no fault of the services."""


@dataclass(frozen=True, slots=True)
class Target:
    """The services, as one check sees them.

    Attributes:
        execution_address: Empty where only JobControl is checked.
        run: The value of the label that all jobs of the run carry.
        incarnations: Of the executors that the run itself has started.
    """

    control_address: str
    execution_address: str
    token: str | None
    run: str
    history: History
    control: Control
    channel: grpc.aio.Channel
    execution_channel: grpc.aio.Channel
    incarnations: set[str] = field(default_factory=set)

    @property
    def metadata(self) -> Any:
        return call_metadata(self.token)

    @property
    def job_control(self) -> Any:
        return job_control_pb2_grpc.JobControlStub(self.channel)

    @property
    def execution(self) -> Any:
        return execution_service_pb2_grpc.ExecutionServiceStub(self.execution_channel)

    async def waiting_job(self, work: dict[str, Any] | None = None, **fields: Any) -> job_pb2.Job:
        """Create a job that no executor takes, so that it does only what the check says."""
        return await self.control.create(work, **{"run_time": NEVER_DUE, **fields})

    async def due_job(self, work: dict[str, Any] | None = None, **fields: Any) -> job_pb2.Job:
        """Create a job that is to be leased at once, before what else waits."""
        return await self.control.create(work, **{"overrides": pb.JobOverrides(priority=0), **fields})

    def waiting(self, **fields: Any) -> pb.CreateJobRequest:
        """Make a request for a job that no executor takes."""
        return self.control.creation(**{"run_time": NEVER_DUE, **fields})

    async def upload(self, *parts: pb.UploadInputRequest) -> pb.UploadInputResponse:
        """Upload what the parts say.

        Raises:
            Refused: The service answered with an error.
        """
        call = self.job_control.UploadInput(iter(parts), **self._options)
        response: pb.UploadInputResponse = await self.answered("UploadInput", call)
        return response

    async def execute(self, method: str, request: Message) -> Any:
        """Call a unary method of ExecutionService.

        Raises:
            Refused: The service answered with an error.
        """
        return await self.answered(method, getattr(self.execution, method)(request, **self._options))

    async def answered(self, method: str, call: Any) -> Any:
        """Wait for the answer of a call that was begun.

        Raises:
            Refused: The service answered with an error.
        """
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise Refused(method, error) from None

    async def collected(self, method: str, stream: Any) -> list[Any]:
        """Read a stream of answers to its end.

        Raises:
            Refused: The service answered with an error.
        """
        try:
            return [each async for each in stream]
        except grpc.aio.AioRpcError as error:
            raise Refused(method, error) from None

    async def events_so_far(self, job_id: str) -> list[job_pb2.JobEvent]:
        """Watch a job from its beginning up to the last event that it has now."""
        last = (await self.control.get(job_id)).last_event_number
        events: list[job_pb2.JobEvent] = []
        try:
            async with asyncio.timeout(_EVENTS_SECONDS_MAX), aclosing(self.control.watch(job_id)) as updates:
                async for update in updates:
                    if update.HasField("event"):
                        events.append(update.event)
                    if update.HasField("ended") or (events and events[-1].number >= last):
                        break
        except TimeoutError:
            raise Unmet(f"of {last} events a watcher is told {len(events)}") from None
        return events

    async def open_jobs(self) -> Iterable[job_pb2.Job]:
        """Jobs of the run that have neither ended nor been asked to."""
        states = [job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING]
        wanted = pb.JobFilter(labels={LABEL: self.run}, states=states)
        page = await self.control.call("ListJobs", pb.ListJobsRequest(filter=wanted, page_size=1_000))
        return [each for each in page.jobs if not each.HasField("cancellation")]

    @property
    def _options(self) -> dict[str, Any]:
        return {"metadata": self.metadata, "timeout": TIMEOUT_SECONDS}


@asynccontextmanager
async def reaching(
    control_address: str, execution_address: str, *, token: str | None, run: str, history: History
) -> AsyncIterator[Target]:
    """Open connections of their own to the services."""
    async with AsyncExitStack() as opened:
        control = await opened.enter_async_context(calling(control_address, history, run=run, token=token))
        channel = await opened.enter_async_context(channel_to(control_address))
        execution_channel = await opened.enter_async_context(channel_to(execution_address or control_address))
        yield Target(
            control_address,
            execution_address,
            token,
            run,
            history,
            control,
            channel,
            execution_channel,
        )
