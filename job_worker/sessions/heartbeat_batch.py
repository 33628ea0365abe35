"""Gathers the heartbeats of all sessions, and writes them at most about once a second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from job_worker.operations.record_heartbeats import RecordHeartbeats
from job_worker.sessions.session import Session
from shared.domain.identity import JobId
from shared.domain.leases import Heartbeat, LeaseRef

HEARTBEATS_MAX = 2_000
"""Of one statement, so that it holds its row locks for milliseconds only."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    heartbeat: Heartbeat
    session: Session


class HeartbeatBatch:
    """The latest heartbeat of each lease wins, and keeps what an earlier one said of progress.

    The first heartbeat of a lease, which accepts it, may wait like any other: a lease stands for much longer
    than a batch gathers. A heartbeat whose lease is reported on meanwhile is dropped.
    """

    def __init__(self, record_heartbeats: RecordHeartbeats) -> None:
        self._record_heartbeats = record_heartbeats
        self._waiting = dict[LeaseRef, _Waiting]()
        self._numbers = dict[Session, int]()
        self._dropped = set[LeaseRef]()

    def add(self, session: Session, heartbeats: Iterable[Heartbeat], number: int) -> None:
        """Take in the heartbeats of a frame, which the executor has numbered; 0 wants no answer."""
        for each in heartbeats:
            earlier = self._waiting.get(each.ref)
            merged = each if earlier is None else _merged(earlier.heartbeat, each)
            self._waiting[each.ref] = _Waiting(merged, session)
        if number:
            self._numbers[session] = max(number, self._numbers.get(session, 0))

    def drop(self, leases: Iterable[LeaseRef]) -> None:
        """Forget what waits for leases whose attempts have ended."""
        for each in leases:
            self._waiting.pop(each, None)
            self._dropped.add(each)

    def forget(self, session: Session) -> None:
        """Answer a session no more; its heartbeats are written all the same."""
        self._numbers.pop(session, None)

    async def step(self) -> bool:
        """Write what has gathered, and tell each session what came of it."""
        waiting, self._waiting = self._waiting, {}
        numbers, self._numbers = self._numbers, {}
        self._dropped.clear()
        try:
            for batch in _batches(waiting):
                await self._write(batch)
                for each in batch:
                    del waiting[each.heartbeat.ref]
        except BaseException:
            self._put_back(waiting, numbers)
            raise
        for session, number in numbers.items():
            session.outgoing.add_heartbeats_recorded(number)
        return False

    async def _write(self, batch: Sequence[_Waiting]) -> None:
        outcome = await self._record_heartbeats([each.heartbeat for each in batch])
        sessions = {each.heartbeat.ref: each.session for each in batch}
        for ref in outcome.lost:
            if ref not in self._dropped:
                sessions[ref].outgoing.add_lost([ref])
        for ref in outcome.cancels:
            sessions[ref].outgoing.add_cancels([ref])

    def _put_back(self, waiting: Mapping[LeaseRef, _Waiting], numbers: Mapping[Session, int]) -> None:
        newer = self._waiting
        self._waiting = {ref: each for ref, each in waiting.items() if ref not in self._dropped}
        for ref, each in newer.items():
            earlier = self._waiting.get(ref)
            merged = each.heartbeat if earlier is None else _merged(earlier.heartbeat, each.heartbeat)
            self._waiting[ref] = _Waiting(merged, each.session)
        for session, number in numbers.items():
            self._numbers[session] = max(number, self._numbers.get(session, 0))


def _merged(earlier: Heartbeat, later: Heartbeat) -> Heartbeat:
    return replace(
        later,
        progress=earlier.progress if later.progress is None else later.progress,
        progress_message=(
            earlier.progress_message if later.progress_message is None else later.progress_message
        ),
    )


def _batches(waiting: Mapping[LeaseRef, _Waiting]) -> list[list[_Waiting]]:
    """Cut into statements, each with a job at most once: a job's older token is lost in any case."""
    batches: list[list[_Waiting]] = [[]]
    jobs = set[JobId]()
    for ref, each in waiting.items():
        if ref.job_id in jobs or len(batches[-1]) >= HEARTBEATS_MAX:
            batches.append([])
            jobs.clear()
        batches[-1].append(each)
        jobs.add(ref.job_id)
    return batches if batches[-1] else []
