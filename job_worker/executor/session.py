"""One stream to the service, from its hello to its end."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Protocol

import grpc

from job_worker.executor.broken_stream import StreamBroken, broken_streams
from job_worker.executor.dialling import Way
from job_worker.executor.outgoing import Outgoing
from shared.gen.baton.v1.execution_service_pb2 import Hello, OpenSessionRequest, OpenSessionResponse, Welcome
from shared.gen.baton.v1.execution_service_pb2_grpc import ExecutionServiceStub

_ANY_ADDRESS = json.dumps({"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": True}}]})
"""Of the addresses that a name has, each session begins with any: the first may be the replica to be left."""
_REACH_SECONDS_MAX = 2
"""A connection that takes longer goes nowhere: a process that is stopped, or a way that swallows all."""
_FAREWELL_SECONDS_MAX = 5
"""How long the service may take to end a stream after a goodbye."""


class Receiver(Protocol):
    """Who takes in what the service says."""

    def receive(self, response: OpenSessionResponse) -> None: ...


class Session:
    """A reader and a writer that end together."""

    def __init__(self, way: Way) -> None:
        """Dial. Each session has a connection of its own, so that a new one can reach another replica.

        Raises:
            StartupFault: A file for TLS can't be used.
        """
        self._channel = way.channel(
            ("grpc.use_local_subchannel_pool", 1), ("grpc.service_config", _ANY_ADDRESS)
        )
        self._call: Any = ExecutionServiceStub(self._channel).OpenSession(metadata=tuple(way.metadata))
        self._tasks: list[asyncio.Task[None]] = []
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over.add_done_callback(_take_note)

    async def open(self, hello: Hello, *, answer_seconds: float) -> Welcome:
        """Say who is there, and return the welcome.

        Args:
            answer_seconds: How long a service that was reached may take to answer.

        Raises:
            StreamBroken: There is no welcome.
        """
        with broken_streams():
            async with asyncio.timeout(_REACH_SECONDS_MAX):
                await self._call.write(OpenSessionRequest(hello=hello))
            async with asyncio.timeout(answer_seconds):
                first = await self._call.read()
            if first is grpc.aio.EOF or not first.HasField("welcome"):
                raise StreamBroken("the service did not answer the hello with a welcome")
        return first.welcome  # type: ignore[no-any-return]

    def start(self, receiver: Receiver, outgoing: Outgoing) -> None:
        """Begin to hand on what the service says, and to send what is going out."""
        self._tasks = [
            asyncio.create_task(self._read(receiver), name="session-reader"),
            asyncio.create_task(self._write(outgoing), name="session-writer"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    @property
    def has_ended(self) -> bool:
        """Whether nothing is read or sent any more."""
        return any(task.done() for task in self._tasks)

    async def until_over(self) -> None:
        """Return when the service asks to go elsewhere; the stream still stands then.

        Raises:
            StreamBroken: The stream has ended.
        """
        await asyncio.shield(self._over)

    async def until_closed(self) -> None:
        """Wait for the service to end the stream after a goodbye, but not for long."""
        if self._tasks:
            await asyncio.wait(self._tasks[:1], timeout=_FAREWELL_SECONDS_MAX)

    async def close(self) -> None:
        """End the stream; nothing is read or sent any more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._call.cancel()
        await self._channel.close()
        self._over.cancel()

    async def _read(self, receiver: Receiver) -> None:
        with broken_streams():
            while (response := await self._call.read()) is not grpc.aio.EOF:
                receiver.receive(response)
                if response.HasField("drain") and not self._over.done():
                    self._over.set_result(None)
        raise StreamBroken("the service ended the stream")

    async def _write(self, outgoing: Outgoing) -> None:
        with broken_streams():
            goodbye_said = False
            while not goodbye_said:
                frame = await outgoing.next_frame()
                await self._call.write(frame)
                goodbye_said = frame.HasField("goodbye")
            await self._call.done_writing()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self._over.done():
            self._over.set_exception(error)


def _take_note(over: asyncio.Future[None]) -> None:
    """Read the outcome, so that one that nobody waits for any more is no complaint."""
    if not over.cancelled():
        with suppress(Exception):
            over.exception()
