"""Keeps a session open: connects again after a break, and moves on when the service asks to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta

import grpc
import structlog

from job_worker.executor.broken_stream import StreamBroken
from job_worker.executor.held_lease import LeaseBook
from job_worker.executor.keeper import Keeper
from job_worker.executor.outgoing import Outgoing
from job_worker.executor.session import Session
from shared.gen.baton.v1.execution_service_pb2 import Hello
from shared.runtime.clock import Clock
from shared.runtime.faults import StartupFault
from shared.runtime.loops import Backoff, Loop, Timetable

log = structlog.get_logger(__name__)

_RECONNECT_FIRST = timedelta(seconds=0.1)
_LASTING_SECONDS = 5.0
"""A session that ends sooner counts as a failure."""
_AFTER_GOODBYE = timedelta(hours=1)
"""Longer than any process takes to end."""
_HOPELESS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
"""A first hello that is answered so will be answered so again."""


class Connection:
    """The present session. A step opens one, or lasts as long as it stands.

    Attributes:
        welcomed: Set once the service has taken this executor.
    """

    def __init__(
        self,
        address: str,
        metadata: Sequence[tuple[str, str]],
        *,
        hello: Hello,
        keeper: Keeper,
        book: LeaseBook,
        outgoing: Outgoing,
        clock: Clock,
        wait_max: timedelta,
    ) -> None:
        self._address = address
        self._metadata = metadata
        self._hello = hello
        self._keeper = keeper
        self._book = book
        self._outgoing = outgoing
        self._clock = clock
        self._backoff = Backoff(base=min(_RECONNECT_FIRST, wait_max), cap=wait_max)
        self._opened_time = 0.0
        self._short_lives = 0
        self._session: Session | None = None
        self._moving = False
        self.welcomed = asyncio.Event()
        self._leaving = False

    def loop(self) -> Loop:
        timetable = Timetable(idle=_AFTER_GOODBYE, transient=(StreamBroken,), backoff=self._backoff)
        return Loop("session", self.step, timetable)

    async def step(self) -> bool:
        """Open a session, or wait until the present one must be left; do nothing after the goodbye.

        Raises:
            StreamBroken: It could not be opened, or has ended.
            StartupFault: The service will never take this executor.
        """
        if self._leaving:
            return False
        if self._session is None or self._moving:
            await self._move()
            return True
        try:
            await self._session.until_over()
        except StreamBroken:
            if self._leaving:
                return False
            await self._leave()
            await self._rest()
            raise
        log.info("session.drained")
        self._moving = True
        await self._rest()
        return True

    async def say_goodbye(self) -> None:
        """Tell the service that nothing more will come, and wait until it has ended the stream."""
        self._leaving = True
        if self._session is not None:
            self._outgoing.goodbye()
            await self._session.until_closed()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _rest(self) -> None:
        """Wait a little longer after each session in a row that did not last."""
        if self._clock.monotonic() - self._opened_time >= _LASTING_SECONDS:
            self._short_lives = 0
            return
        self._short_lives += 1
        await self._clock.sleep(self._backoff.delay(self._short_lives, uniform=random.random()))

    async def _leave(self) -> None:
        session, self._session = self._session, None
        self._moving = False
        self._keeper.disconnected()
        if session is not None:
            await session.close()

    async def _move(self) -> None:
        """Open a session, and only then end the old one: until then, the old one still answers."""
        session = Session(self._address, self._metadata)
        try:
            hello = Hello(held=[held.ref for held in self._book])
            hello.MergeFrom(self._hello)
            welcome = await session.open(hello)
        except StreamBroken as broken:
            await session.close()
            if broken.code in _HOPELESS and not self.welcomed.is_set():
                raise StartupFault(f"{self._address} refuses this executor: {broken}") from broken
            raise
        except BaseException:
            await session.close()
            raise
        old, self._session = self._session, session
        if old is not None:
            await old.close()
        self._moving = False
        self.welcomed.set()
        self._opened_time = self._clock.monotonic()
        self._keeper.connected(welcome)
        session.start(self._keeper, self._outgoing)
        log.info("session.opened", address=self._address, session_id=welcome.session_id, held=len(self._book))
