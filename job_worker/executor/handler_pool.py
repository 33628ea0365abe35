"""Keeps the handler processes alive and spreads attempts over them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Protocol

import structlog

from job_worker.executor.handler_link import DiedAtStart, HandlerLink, Limits
from job_worker.executor.held_lease import HeldLease
from shared.gen.baton.internal.v1.handler_pipe_pb2 import HandlerFrame, Setup
from shared.runtime.faults import StartupFault
from shared.runtime.loops import Backoff, Loop, Timetable

log = structlog.get_logger(__name__)

ALONE_MAX = 16
"""Processes for attempts that must be alone, some 60 MB each. A process that dies makes suspects of all that
were inside, which can be many more; they take turns."""

BIRTHS_MAX = 2
"""So many of these start at a time: a start keeps a processor busy for a second, and heartbeats need one too.
What is short is done by the first ones before others are needed."""

_BACKOFF = Backoff(base=timedelta(seconds=0.1), cap=timedelta(seconds=5))
"""Between starts of a process that dies at its start."""


class Listener(Protocol):
    """Who is told what happens in handler processes."""

    def heard(self, link: HandlerLink, frame: HandlerFrame) -> None: ...

    def died(self, link: HandlerLink, exit_code: int) -> None:
        """All that was inside is still in `link.inside`."""
        ...

    def not_started(self, held: HeldLease) -> None:
        """No process could be started for a lease that must run alone."""
        ...


class HandlerPool:
    """Some processes that all attempts share, and a few for attempts that must be alone, one at a time."""

    def __init__(self, setup: Setup, *, processes: int) -> None:
        self.limits = Limits()
        self.ready = asyncio.Event()
        """Set once all shared processes have started."""
        self._setup = setup
        self._processes = processes
        self._listener: Listener | None = None
        self._shared: list[HandlerLink] = []
        self._alone: set[asyncio.Task[None]] = set()
        self._alone_links: set[HandlerLink] = set()
        self._births = asyncio.Semaphore(BIRTHS_MAX)
        self._waiting: deque[HeldLease] = deque()
        self._waiting_alone: deque[HeldLease] = deque()
        self._uncertain = False

    def listened_by(self, listener: Listener) -> None:
        """Name the listener; once, before anything runs."""
        self._listener = listener

    def loops(self) -> Sequence[Loop]:
        """One loop for each shared process; each step is one life of it."""
        timetable = Timetable(idle=timedelta(0), transient=(DiedAtStart,), backoff=_BACKOFF)
        return [
            Loop(f"handler-process-{number}", self._live_once, timetable)
            for number in range(1, self._processes + 1)
        ]

    def run(self, held: HeldLease) -> None:
        """Start an attempt, at once or when a process is ready."""
        if held.lease.run_alone:
            self._waiting_alone.append(held)
            self._make_room_alone()
            return
        self._waiting.append(held)
        self._assign()

    def go_on_alone(self, link: HandlerLink) -> None:
        """Give a process with nobody inside the next attempt that must be alone, or end it."""
        while self._waiting_alone:
            held = self._waiting_alone.popleft()
            if _is_wanted(held):
                link.start(held, self.limits)
                return
        link.kill()

    def tell_uncertain(self, uncertain: bool) -> None:
        """Tell all contexts whether their leases are uncertain."""
        if uncertain != self._uncertain:
            self._uncertain = uncertain
            for link in self._links():
                link.tell_uncertain(uncertain)

    async def stop(self) -> None:
        """End the processes of attempts that run alone; the shared ones end with their loops."""
        tasks = list(self._alone)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _links(self) -> Iterator[HandlerLink]:
        yield from self._shared
        yield from self._alone_links

    def _assign(self) -> None:
        links = [link for link in self._shared if not link.killed]
        while self._waiting and links:
            held = self._waiting.popleft()
            if _is_wanted(held):
                min(links, key=lambda link: len(link.inside)).start(held, self.limits)

    async def _live_once(self) -> bool:
        link = await self._born(alone=False)
        self._shared.append(link)
        if len(self._shared) == self._processes:
            self.ready.set()
        self._assign()
        try:
            exit_code = await link.listen(self._ear.heard)
        finally:
            self._shared.remove(link)
        self._ear.died(link, exit_code)
        return True

    def _make_room_alone(self) -> None:
        if len(self._alone) < ALONE_MAX:
            task = asyncio.create_task(self._run_alone())
            self._alone.add(task)
            task.add_done_callback(self._alone.discard)

    async def _run_alone(self) -> None:
        """Run attempts that must be alone, in one process after the other, until none waits."""
        while self._waiting_alone:
            try:
                link = await self._born_if_needed()
            except (DiedAtStart, StartupFault) as error:
                log.warning("handler_process.died_at_start", error=str(error))
                if self._waiting_alone:
                    self._ear.not_started(self._waiting_alone.popleft())
                continue
            if link is None:
                return
            self._alone_links.add(link)
            try:
                self.go_on_alone(link)
                exit_code = await link.listen(self._ear.heard)
            finally:
                self._alone_links.remove(link)
            self._ear.died(link, exit_code)

    async def _born_if_needed(self) -> HandlerLink | None:
        """Start a process for attempts that must be alone, unless none waits by the time of its turn."""
        async with self._births:
            return await self._born(alone=True) if self._waiting_alone else None

    async def _born(self, *, alone: bool) -> HandlerLink:
        link = await HandlerLink.spawn(self._setup, alone=alone)
        try:
            await link.until_ready()
        except asyncio.CancelledError:
            await link.close()
            raise
        link.tell_uncertain(self._uncertain)
        log.info("handler_process.started", process_id=link.process_id, alone=alone)
        return link

    @property
    def _ear(self) -> Listener:
        if self._listener is None:
            raise RuntimeError("nobody listens")
        return self._listener


def _is_wanted(held: HeldLease) -> bool:
    return held.stop is None and held.report is None
