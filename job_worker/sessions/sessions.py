"""The sessions that are open on this replica."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from job_worker.sessions.session import Session
from shared.domain.identity import IncarnationId, QueueName, SessionId


class Sessions:
    """Found by id or incarnation.

    Attributes:
        credits_added: Set when some session can take more leases.
        demand_changed: Set when the sessions' demand comes or goes.
        emptied: Set while no session is open.
    """

    def __init__(self) -> None:
        self.credits_added = asyncio.Event()
        self.demand_changed = asyncio.Event()
        self.emptied = asyncio.Event()
        self.emptied.set()
        self._by_id = dict[SessionId, Session]()
        self._by_incarnation = dict[IncarnationId, Session]()

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def ids(self) -> list[SessionId]:
        return list(self._by_id)

    def get(self, session_id: SessionId) -> Session | None:
        return self._by_id.get(session_id)

    def add(self, session: Session) -> Session | None:
        """Take in a session; return the one of the same incarnation that it replaces, if there is one."""
        older = self._by_incarnation.get(session.claimant.incarnation_id)
        self._by_id[session.claimant.session_id] = session
        self._by_incarnation[session.claimant.incarnation_id] = session
        self.emptied.clear()
        return older

    def remove(self, session: Session) -> None:
        self._by_id.pop(session.claimant.session_id, None)
        if self._by_incarnation.get(session.claimant.incarnation_id) is session:
            del self._by_incarnation[session.claimant.incarnation_id]
        self.demand_changed.set()
        if not self._by_id:
            self.emptied.set()

    def add_credits(self, session: Session, queue: QueueName, count: int) -> None:
        """Let a session be given more leases, and wake those who give them."""
        had_none = session.open_credits(queue) == 0
        session.add_credits(queue, count)
        self.credits_added.set()
        if had_none:
            self.demand_changed.set()
