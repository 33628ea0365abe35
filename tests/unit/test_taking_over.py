"""Entries that dead workers left are cleared away as fast as claims go, so that they keep no new work out."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

from job_worker.operations.claim_leases import Wish
from job_worker.sessions.demand import Demand
from job_worker.sessions.lease_feed import LeaseFeed
from job_worker.sessions.limited_streams import LimitedStreams
from job_worker.sessions.sessions import Sessions
from shared.domain.identity import JobId, JobType, StreamName
from shared.runtime.ids import new_id
from shared.streams.lease_streams import Entry
from tests.support.manual_clock import ManualClock
from tests.support.worker_sessions import DRILL, a_session

STALE = 20
STREAM = StreamName("drill:synthetic:1.1:2")


class DeadWorkersStreams:
    """One stream whose entries were all taken by workers that are dead; it shows what is left of them.

    An entry that is taken over counts as taken just now, so it can't be taken over again.
    """

    def __init__(self, count: int) -> None:
        self.silent = deque(
            Entry(STREAM, f"{number}-0", JobId(new_id()), JobType("synthetic"), DRILL, 50, 1)
            for number in range(count)
        )
        self.left = {each.entry_id for each in self.silent}

    async def take_over(
        self, streams: Iterable[StreamName], _consumer: str, *, idle: timedelta, limit: int
    ) -> list[Entry]:
        assert STREAM in streams
        assert idle > timedelta(0)
        return [self.silent.popleft() for _ in range(min(limit, len(self.silent)))]

    async def settle(self, entries: Sequence[Entry]) -> None:
        self.left -= {each.entry_id for each in entries}


async def refuse_all(wishes: Collection[Wish]) -> list[object]:
    """The jobs have ended, or run elsewhere."""
    return []


async def test_one_credit_is_enough_to_clear_what_many_dead_workers_left() -> None:
    streams, sessions, executor = DeadWorkersStreams(STALE), Sessions(), a_session(credits=1)
    sessions.add(executor)
    feed = LeaseFeed(
        sessions,
        streams,  # type: ignore[arg-type]
        refuse_all,  # type: ignore[arg-type]
        Demand(sessions, streams, replica="alive", clock=ManualClock()),  # type: ignore[arg-type]
        None,  # type: ignore[arg-type] # reports: nothing is granted, so nothing goes back
        limited=LimitedStreams((), ManualClock(), wake=sessions.credits_added),
        replica="alive",
    )

    while await feed.take_over():
        pass

    assert streams.left == set()
    assert executor.open_credits(DRILL) == 1
