"""Where sessions begin and end, and what their frames set off."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import timedelta

import structlog

from job_worker.operations.end_session import EndSession
from job_worker.operations.open_session import Hello, OpenSession
from job_worker.operations.reports import GiveBack, GiveBackReason, Report
from job_worker.sessions.cancel_push import CancelPush
from job_worker.sessions.frames import ExecutorFrame
from job_worker.sessions.heartbeat_batch import HeartbeatBatch
from job_worker.sessions.piece_batch import PieceBatch
from job_worker.sessions.report_batch import ReportBatch
from job_worker.sessions.session import Session, SessionEnd
from job_worker.sessions.sessions import Sessions
from shared.catalog.catalog import Catalog
from shared.domain.errors import PlatformUnavailable

log = structlog.get_logger(__name__)


class Reception:
    """Nothing here awaits when a stream breaks: what is left to do is done by loops of the application.

    Attributes:
        departed: Set when an executor has said goodbye.
    """

    def __init__(
        self,
        sessions: Sessions,
        catalog: Catalog,
        open_session: OpenSession,
        end_session: EndSession,
        *,
        heartbeats: HeartbeatBatch,
        pieces: PieceBatch,
        reports: ReportBatch,
        cancels: CancelPush,
        frame_bytes_max: int,
        drain_time: timedelta,
    ) -> None:
        self.departed = asyncio.Event()
        self._sessions = sessions
        self._catalog = catalog
        self._open_session = open_session
        self._end_session = end_session
        self._heartbeats = heartbeats
        self._pieces = pieces
        self._reports = reports
        self._cancels = cancels
        self._frame_bytes_max = frame_bytes_max
        self._drain_time = drain_time
        self._draining = False
        self._departures = deque[Session]()
        self._seen_off = asyncio.Event()
        self._seen_off.set()

    async def open(self, hello: Hello) -> Session:
        """Make the session; an older one of the same incarnation ends.

        While draining there are no new ones: an executor that finds no other replica keeps the session that
        it has, which answers until its time is over.

        Raises:
            PlatformUnavailable: The service stops. Or the database did not answer; the next hello replaces
                whatever came of this.
        """
        if self._draining:
            raise PlatformUnavailable("service")
        known = self._catalog.definitions
        unknown = [each.job_type for each in hello.capabilities if each.job_type not in known]
        if unknown:  # an executor may be newer than the service
            log.warning("session.unknown_job_types", executor=hello.executor_name, job_types=unknown)
        opened = await self._open_session(hello)
        session = Session(hello, opened, self._catalog, frame_bytes_max=self._frame_bytes_max)
        older = self._sessions.add(session)
        if older is not None:
            older.end(SessionEnd.REPLACED)
        self._cancels.wake.set()
        if self._draining:
            session.drain(self._drain_time)
        log.info(
            "session.opened",
            session_id=str(opened.session_id),
            executor=hello.executor_name,
            kept=len(opened.kept),
            lost=len(opened.lost),
        )
        return session

    def take(self, session: Session, frame: ExecutorFrame) -> None:
        """Set off what a frame asks for."""
        for queue, count in frame.credits:
            self._sessions.add_credits(session, queue, count)
        self._heartbeats.add(session, frame.heartbeats, frame.heartbeat_number)
        self._pieces.add(session, frame.pieces)
        session.expect_answers(len(frame.reports) + len(frame.refused))
        for refusal in frame.refused:
            session.answer(refusal)
        self._reports.add(frame.reports, session.answer)
        session.departing = session.departing or any(map(_tells_of_departure, frame.reports))
        self._cancels.seen(frame.cancels_seen)
        session.goodbye = session.goodbye or frame.goodbye

    async def room(self, session: Session) -> None:
        """Wait until there is room for what another frame may bring."""
        await session.outgoing.room_for_answers()
        await self._pieces.room()
        await self._reports.room()

    def close(self, session: Session) -> None:
        """Let a session go whose stream has ended; leases that were never sent go back at once."""
        self._sessions.remove(session)
        self._heartbeats.forget(session)
        session.outgoing.close()
        self._reports.give_back_undelivered(session.outgoing.unsent_leases())
        log.info("session.closed", session_id=str(session.claimant.session_id), goodbye=session.goodbye)
        if session.goodbye:
            self._departures.append(session)
            self._seen_off.clear()
            self.departed.set()

    async def step(self) -> bool:
        """See off executors that have said goodbye, each once its reports are durable."""
        for session in list(self._departures):
            if not session.reports_open:
                await self._end_session(session.claimant.incarnation_id, session.claimant.session_id)
                self._departures.remove(session)
        if not self._departures:
            self._seen_off.set()
        return False

    async def drain(self) -> None:
        """Send every executor elsewhere, and end the sessions that have not gone in time."""
        self._draining = True
        for session in self._sessions:
            session.drain(self._drain_time)
        try:
            async with asyncio.timeout(self._drain_time.total_seconds()):
                await self._sessions.emptied.wait()
        except TimeoutError:
            for session in self._sessions:
                session.end(SessionEnd.DRAINED)
            await self._sessions.emptied.wait()
        await self._seen_off.wait()


def _tells_of_departure(report: Report) -> bool:
    """An executor that gives back because it stops would give back whatever else it got."""
    return isinstance(report.end, GiveBack) and report.end.reason is GiveBackReason.DRAINING
