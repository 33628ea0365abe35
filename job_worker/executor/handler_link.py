"""A handler process, as the keeper sees it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from job_worker.executor.frame_pipe import FramePipe, GatheredFrames
from job_worker.executor.held_lease import HeldLease
from shared.gen.baton.internal.v1.handler_pipe_pb2 import HandlerFrame, KeeperFrame, Setup, Work
from shared.gen.baton.v1.execution_service_pb2 import Welcome
from shared.runtime.faults import StartupFault

START_SECONDS_MAX = 60
"""Imports of large libraries on a busy machine take long; longer than this is a hang."""
_LAST_WORDS_SECONDS = 1.0
"""How long the pipe of a dead process is read on: a program that it left behind may hold it open."""
_FRAME_OVERHEAD_BYTES = 8 * 1024
"""What stands around an output in its frame to the service."""


class DiedAtStart(Exception):
    """A handler process ended, or hung, before it could take an attempt."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the service takes at most."""

    frame_bytes: int = 4 * 1024 * 1024
    output_bytes: int = 1024 * 1024
    piece_bytes: int = 64 * 1024
    progress_message_characters: int = 200

    @classmethod
    def told(cls, welcome: Welcome) -> Limits:
        """Read them from a welcome; what it leaves out is as by default."""
        return cls(
            welcome.frame_bytes_max or cls().frame_bytes,
            welcome.output_bytes_max or cls().output_bytes,
            welcome.piece_bytes_max or cls().piece_bytes,
            welcome.progress_message_characters_max or cls().progress_message_characters,
        )

    def output_of(self, held: HeldLease) -> int:
        """The largest output of one lease."""
        sizes = (held.lease.output_bytes_max, self.output_bytes, self.frame_bytes - _FRAME_OVERHEAD_BYTES)
        return min(size for size in sizes if size)


class HandlerLink:
    """One handler process and the attempts inside it.

    Attributes:
        inside: By number; each from its start until its end was heard.
        alone: It runs one attempt at a time.
        killed: The keeper killed it, so that it is nobody's fault inside but the one's that was late.
    """

    def __init__(self, process: asyncio.subprocess.Process, pipe: FramePipe, *, alone: bool) -> None:
        self.inside: dict[int, HeldLease] = {}
        self.alone = alone
        self.killed = False
        self._process = process
        self._pipe = pipe
        self._frames = GatheredFrames(pipe, KeeperFrame)

    @classmethod
    async def spawn(cls, setup: Setup, *, alone: bool) -> HandlerLink:
        """Start a process. Not a fork: gRPC's threads would not survive it."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "job_worker.executor.handler_process",
                str(theirs.fileno()),
                str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        link = cls(process, await FramePipe.over(ours), alone=alone)
        link._pipe.write(KeeperFrame(setup=setup))
        return link

    @property
    def process_id(self) -> int:
        return self._process.pid

    async def until_ready(self) -> None:
        """Wait until attempts can be started.

        Raises:
            StartupFault: The handlers do not fit; the process is gone.
            DiedAtStart: It is gone for another reason.
        """
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                first = await self._pipe.read()
        except TimeoutError:
            first = None
        if first is not None and not (faults := HandlerFrame.FromString(first).ready.faults):
            return
        await self.close()
        if first is not None:
            raise StartupFault(list(faults))
        raise DiedAtStart(f"exit code {self._process.returncode}")

    async def listen(self, heard: Callable[[HandlerLink, HandlerFrame], None]) -> int:
        """Hand on all that it says until it is gone, and return its exit code."""
        reading = asyncio.create_task(self._read(heard))
        exiting = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait({reading, exiting}, return_when=asyncio.FIRST_COMPLETED)
            self._end()
            await exiting
            await asyncio.wait({reading}, timeout=_LAST_WORDS_SECONDS)
            if reading.done():
                reading.result()
            return exiting.result()
        finally:
            reading.cancel()
            exiting.cancel()
            await self.close()

    async def _read(self, heard: Callable[[HandlerLink, HandlerFrame], None]) -> None:
        while (content := await self._pipe.read()) is not None:
            heard(self, HandlerFrame.FromString(content))

    def start(self, held: HeldLease, limits: Limits) -> None:
        """Begin an attempt, and let go of its input, which may be large."""
        held.link = self
        self.inside[held.number] = held
        work = Work(
            number=held.number,
            lease=held.lease,
            document=held.document,
            output_bytes_max=limits.output_of(held),
            piece_bytes_max=limits.piece_bytes,
            progress_message_characters_max=limits.progress_message_characters,
        )
        left = held.end_time - asyncio.get_running_loop().time()
        work.time_left.FromTimedelta(timedelta(seconds=max(left, 0.0)))
        self._frames.frame(len(held.lease.input) + len(held.document)).starts.append(work)
        held.lease.ClearField("input")
        held.document = b""

    def stop(self, held: HeldLease) -> None:
        self._frames.frame().stops.add(number=held.number)

    def pieces_stored(self, held: HeldLease, piece_number: int) -> None:
        self._frames.frame().pieces_stored.add(number=held.number, piece_number=piece_number)

    def tell_uncertain(self, uncertain: bool) -> None:
        self._frames.frame().lease_uncertain = uncertain

    def left(self, held: HeldLease) -> None:
        """Take in that an attempt is not inside any more."""
        self.inside.pop(held.number, None)
        held.link = None

    def kill(self) -> None:
        """End it at once, with everything inside."""
        self.killed = True
        self._end()

    def _end(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """End it, and wait until it is gone."""
        self._pipe.close()
        self._end()
        await self._process.wait()
