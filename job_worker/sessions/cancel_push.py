"""Pushes cancels to executors until they say that they know."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from job_worker.operations.find_cancels import FindCancels
from job_worker.operations.record_cancels_seen import RecordCancelsSeen
from job_worker.sessions.sessions import Sessions
from shared.domain.leases import LeaseRef

LEASES_MAX = 1_000
"""Acknowledgements that are recorded in one statement."""


class CancelPush:
    """A hint says when to look; without one it looks now and then, as a push may be lost on its way.

    Attributes:
        wake: Set when there is something to do.
    """

    def __init__(
        self, sessions: Sessions, find_cancels: FindCancels, record_cancels_seen: RecordCancelsSeen
    ) -> None:
        self.wake = asyncio.Event()
        self._sessions = sessions
        self._find_cancels = find_cancels
        self._record_cancels_seen = record_cancels_seen
        self._seen = dict[LeaseRef, None]()

    def seen(self, leases: Iterable[LeaseRef]) -> None:
        """Take in what executors have acknowledged; one that is lost here is acknowledged again."""
        before = len(self._seen)
        self._seen |= dict.fromkeys(leases)
        if len(self._seen) > before:
            self.wake.set()

    async def step(self) -> bool:
        """Record acknowledgements, then push what has none."""
        await self._record(list(self._seen)[:LEASES_MAX])
        for session_id, lease in await self._find_cancels(self._sessions.ids()):
            session = self._sessions.get(session_id)
            if session is not None and lease not in self._seen:
                session.outgoing.add_cancels([lease])
        return bool(self._seen)

    async def record(self, leases: Iterable[LeaseRef]) -> None:
        """Record now what is acknowledged of leases that are about to end; afterwards it would be lost.

        Raises:
            PlatformUnavailable: Some of it may be recorded; calling again is safe.
        """
        await self._record([each for each in leases if each in self._seen])

    async def _record(self, leases: Sequence[LeaseRef]) -> None:
        if leases:
            await self._record_cancels_seen(leases)
        for each in leases:
            self._seen.pop(each, None)
