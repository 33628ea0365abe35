"""Keeps a session open: connects again after a break, and moves on when the service asks to or is silent."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import grpc
import structlog

from job_worker.executor.broken_stream import StreamBroken
from job_worker.executor.dialling import Way
from job_worker.executor.heartbeats import Heartbeats
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
_ANSWER_SECONDS = 2.5
_ANSWER_SECONDS_MAX = 10.0
"""How long a welcome is waited for: not long at first, as the next connection may come out elsewhere, and
then twice as long each time, so that a service that is slow with its answers gets to give one."""
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
        way: Way,
        *,
        hello: Hello,
        keeper: Keeper,
        book: LeaseBook,
        outgoing: Outgoing,
        heartbeats: Heartbeats,
        clock: Clock,
        wait_max: timedelta,
    ) -> None:
        self._way = way
        self._hello = hello
        self._keeper = keeper
        self._book = book
        self._outgoing = outgoing
        self._heartbeats = heartbeats
        self._clock = clock
        self._backoff = Backoff(base=min(_RECONNECT_FIRST, wait_max), cap=wait_max)
        self._opened_time = 0.0
        self._short_lives = 0
        self._unwelcome = 0
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
        if self._session is not None and self._moving and self._session.has_ended:
            await self._leave()
        if self._session is None or self._moving:
            await self._move()
            return True
        try:
            silent = await self._until_left(self._session)
        except StreamBroken:
            if self._leaving:
                return False
            await self._leave()
            await self._rest()
            raise
        if silent:
            await self._leave_silence()
            return True
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

    async def _until_left(self, session: Session) -> bool:
        """Wait until the session must be left; True if nobody said so, but heartbeats stay unanswered.

        Raises:
            StreamBroken: It has ended.
        """
        over = asyncio.ensure_future(session.until_over())
        silence = asyncio.ensure_future(self._heartbeats.silence.wait())
        try:
            await asyncio.wait({over, silence}, return_when=asyncio.FIRST_COMPLETED)
            if over.done():
                over.result()
            return not over.done()
        finally:
            over.cancel()
            silence.cancel()

    async def _leave_silence(self) -> None:
        """Try for a better session once; without one, the present one is listened to for longer."""
        log.warning("session.silent", held=len(self._book))
        try:
            await self._move()
        except StreamBroken as broken:
            log.warning("session.not_replaced", error=str(broken))
            self._heartbeats.be_patient_again()

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
        session = self._dialled()
        try:
            hello = Hello(held=[held.ref for held in self._book])
            hello.MergeFrom(self._hello)
            patience = min(_ANSWER_SECONDS_MAX, _ANSWER_SECONDS * (1 << min(self._unwelcome, 10)))
            welcome = await session.open(hello, answer_seconds=patience)
        except StreamBroken as broken:
            self._unwelcome += 1
            await session.close()
            if broken.code in _HOPELESS and not self.welcomed.is_set():
                raise StartupFault(f"{self._way.address} refuses this executor: {broken}") from broken
            raise
        except BaseException:
            await session.close()
            raise
        old, self._session = self._session, session
        if old is not None:
            await old.close()
        self._moving = False
        self._unwelcome = 0
        self.welcomed.set()
        self._opened_time = self._clock.monotonic()
        self._keeper.connected(welcome)
        session.start(self._keeper, self._outgoing)
        log.info(
            "session.opened", address=self._way.address, session_id=welcome.session_id, held=len(self._book)
        )

    def _dialled(self) -> Session:
        """Dial; a certificate that can't be used, as half-way through its renewal, may be whole next time.

        Raises:
            StreamBroken: So it is, and this executor was welcomed before.
            StartupFault: So it is, and was from the beginning.
        """
        try:
            return Session(self._way)
        except StartupFault as fault:
            if not self.welcomed.is_set():
                raise
            raise StreamBroken(str(fault)) from None
