"""Ends sessions that were replaced elsewhere, that are old, or that were told to go."""

from __future__ import annotations

import random
from datetime import timedelta

from job_worker.operations.find_replaced_sessions import FindReplacedSessions
from job_worker.sessions.session import Session, SessionEnd
from job_worker.sessions.sessions import Sessions
from shared.domain.identity import SessionId
from shared.runtime.clock import Clock

AGE_JITTER = 0.2
"""The share by which ages differ, so that sessions that began together don't end together."""


class SessionWatch:
    """Looks at every session now and then."""

    def __init__(
        self,
        sessions: Sessions,
        find_replaced_sessions: FindReplacedSessions,
        *,
        age_max: timedelta,
        drain_time: timedelta,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._find_replaced_sessions = find_replaced_sessions
        self._age_max = age_max
        self._drain_time = drain_time
        self._clock = clock
        self._drain_at = dict[SessionId, float]()

    async def step(self) -> bool:
        """End what is over; ask what is old to drain, and end it if it has not gone in time."""
        ids = self._sessions.ids()
        for session_id in await self._find_replaced_sessions(ids):
            session = self._sessions.get(session_id)
            if session is not None:
                session.end(SessionEnd.REPLACED)
        self._drain_at = {each: self._drain_at.get(each) or self._draw() for each in ids}
        now = self._clock.monotonic()
        for session in self._sessions:
            self._retire(session, now)
        return False

    def _retire(self, session: Session, now: float) -> None:
        drain_at = self._drain_at.get(session.claimant.session_id, now + 1)
        if now >= drain_at and not session.draining:
            session.drain(self._drain_time)
        if now >= drain_at + self._drain_time.total_seconds():
            session.end(SessionEnd.DRAINED)

    def _draw(self) -> float:
        share = random.uniform(1 - AGE_JITTER, 1 + AGE_JITTER)
        return self._clock.monotonic() + self._age_max.total_seconds() * share
