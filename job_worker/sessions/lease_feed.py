"""Brings leases from the streams to the sessions that have credits for them.

Postgres is authoritative: an entry of a stream is only a place to look, and the claim, one statement for all
sessions, says who has a lease. What is promised: an executor never gets more leases than it has credits for,
because its credits are taken before entries are; an entry leaves its stream only after the claim that it led
to was committed, or refused.

If Redis fails, nothing was claimed or nothing was settled; an entry that stays pending is taken over later,
and its second claim is refused. If the database fails, the claim may have happened: the leases that nobody
heard of are never accepted and so go back without cost. If the process dies, other replicas take its pending
entries over.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby

import structlog

from job_worker.operations.claim_leases import ClaimLeases, GrantedLease, Wish
from job_worker.sessions.demand import Demand
from job_worker.sessions.lease_plan import Seat, WantedStream, reserve, wanted_streams
from job_worker.sessions.limited_streams import LimitedStreams
from job_worker.sessions.report_batch import ReportBatch
from job_worker.sessions.session import Session
from job_worker.sessions.sessions import Sessions
from shared.domain.identity import JobId, QueueName, SessionId, StreamName
from shared.streams.lease_streams import Entry, LeaseStreams

log = structlog.get_logger(__name__)

ENTRIES_MAX = 1_000
"""Entries of one pass, so that a claim stays a short transaction."""
TAKE_OVER_IDLE = timedelta(seconds=10)
"""Far above what lies between taking an entry and settling it."""
TAKE_OVER_MAX = 200
"""Pending entries that are taken over in one pass, in each queue."""


@dataclass(slots=True)
class _Taken:
    """Entries that were taken, each with the credit for it; those without one are settled unclaimed."""

    seated: list[tuple[Entry, Seat]] = field(default_factory=list)

    def give_up(self) -> None:
        for _, seat in self.seated:
            seat.give_up()


class LeaseFeed:
    """One for all sessions of a replica, so that entries and claims go in batches."""

    def __init__(
        self,
        sessions: Sessions,
        streams: LeaseStreams,
        claim_leases: ClaimLeases,
        demand: Demand,
        reports: ReportBatch,
        *,
        limited: LimitedStreams,
        replica: str,
    ) -> None:
        self._sessions = sessions
        self._streams = streams
        self._claim_leases = claim_leases
        self._demand = demand
        self._reports = reports
        self._limited = limited
        self._replica = replica

    async def step(self) -> bool:
        """Give leases to sessions with open credits; True if any entry was found."""
        taken = await self._take()
        await self._claim_apart(taken)
        return bool(taken.seated)

    async def take_over(self) -> bool:
        """Look after entries that were taken and never settled; True if there may be more.

        Whoever takes an entry over is the one that it waits for, so no more are taken than there are credits:
        the others would fill their stream for as long again, and keep new work out of it.
        """
        found = False
        streams = wanted_streams(self._in_turn())
        for queue, wanted in groupby(sorted(streams, key=_queue_of), key=_queue_of):
            found = await self._take_over(queue, list(wanted)) or found
        return found

    async def _take_over(self, queue: QueueName, streams: Sequence[WantedStream]) -> bool:
        able = {session.claimant.session_id: session for each in streams for session in each.sessions}
        credits = sum(session.open_credits(queue) for session in able.values())
        if credits == 0:  # used while another queue was looked after
            return False
        entries = await self._streams.take_over(
            [each.name for each in streams],
            self._replica,
            idle=TAKE_OVER_IDLE,
            limit=min(credits, TAKE_OVER_MAX),
        )
        found = Counter(each.stream for each in entries)
        taken = _Taken()
        # An entry for which the credit has gone meanwhile stays pending, and is looked at again in a while.
        _seat(entries, reserve(streams, found), taken)
        if taken.seated:
            log.info("lease_entries.taken_over", entries=len(taken.seated))
            await self._claim_apart(taken)
        return bool(taken.seated)

    async def _take(self) -> _Taken:
        """Take entries, never more than there are credits.

        How long a stream is includes entries that other replicas are claiming just now. Credits that were
        meant for those go to less urgent streams in another pass, in which that stream is left out.
        """
        taken = _Taken()
        dry = set[StreamName]()
        streams = self._limited.ready(wanted_streams(self._in_turn()))
        if not streams:
            return taken
        depths = await self._streams.depths([each.name for each in streams])
        lengths = {name: min(depth.length or 0, ENTRIES_MAX) for name, depth in depths.items()}
        while seats := reserve([each for each in streams if each.name not in dry], lengths):
            short = await self._take_planned(seats, lengths, taken)
            if not short:
                break
            dry |= short
        return taken

    async def _take_planned(
        self, seats: Mapping[StreamName, deque[Seat]], lengths: dict[StreamName, int], taken: _Taken
    ) -> set[StreamName]:
        """Take as many entries as there are seats; return the streams that had fewer."""
        try:
            entries = await self._streams.take(
                [(name, len(each)) for name, each in seats.items()], self._replica
            )
        except BaseException:
            for each in seats.values():
                _give_up(each)
            taken.give_up()
            raise
        for entry in entries:
            lengths[entry.stream] -= 1
        _seat(entries, seats, taken)
        short = {name for name, each in seats.items() if each}
        for each in seats.values():
            _give_up(each)
        return short

    async def _claim_apart(self, taken: _Taken) -> None:
        """Claim what has no limits first: it shall not wait for whoever holds the limits of others."""
        parts = _Taken(), _Taken()
        for entry, seat in taken.seated:
            parts[self._limited.concern(entry.stream)].seated.append((entry, seat))
        free, limited = parts
        try:
            await self._claim(free)
        except BaseException:
            limited.give_up()
            raise
        await self._claim(limited)

    async def _claim(self, taken: _Taken) -> None:
        if not taken.seated:
            return
        chosen = _one_of_each_job(taken.seated)
        wishes = [
            Wish(entry.job_id, entry.attempt, entry.job_type, seat.session.claimant)
            for entry, seat in chosen.values()
        ]
        try:
            granted = {each.lease.ref.job_id: each for each in await self._claim_leases(wishes)}
        except BaseException:
            taken.give_up()
            raise
        pushes = dict[SessionId, tuple[Session, list[GrantedLease]]]()
        claimed = Counter[StreamName]()
        for entry, seat in taken.seated:
            lease = granted.get(entry.job_id)
            if lease is None or chosen[entry.job_id][0] is not entry:
                seat.give_up()
                continue
            claimed[entry.stream] += 1
            session = seat.session
            pushes.setdefault(session.claimant.session_id, (session, []))[1].append(lease)
        self._push(pushes)
        self._demand.claimed(claimed)
        self._limited.claimed({entry.stream for entry, _ in taken.seated}, claimed.keys())
        await self._streams.settle([entry for entry, _ in taken.seated])

    def _push(self, pushes: Mapping[SessionId, tuple[Session, list[GrantedLease]]]) -> None:
        for session_id, (session, leases) in pushes.items():
            if self._sessions.get(session_id) is session:
                session.grant(leases)
            else:  # it ended while its leases were being claimed
                self._reports.give_back_undelivered([each.lease.ref for each in leases])

    def _in_turn(self) -> Sequence[Session]:
        """Return the sessions, beginning with any of them.

        By chance and not in turns: turns could keep step with an entry that comes back, and always meet it
        with the one session whose executor has refused its job.
        """
        sessions = list(self._sessions)
        first = int(random.random() * len(sessions))
        return [*sessions[first:], *sessions[:first]]


def _queue_of(stream: WantedStream) -> QueueName:
    return stream.queue


def _seat(entries: Sequence[Entry], seats: Mapping[StreamName, deque[Seat]], taken: _Taken) -> None:
    for entry in entries:
        waiting = seats.get(entry.stream)
        if waiting:
            taken.seated.append((entry, waiting.popleft()))


def _give_up(seats: deque[Seat]) -> None:
    while seats:
        seats.popleft().give_up()


def _one_of_each_job(seated: Sequence[tuple[Entry, Seat]]) -> Mapping[JobId, tuple[Entry, Seat]]:
    """Choose one entry of each job, that of the latest attempt: a claim names a job once."""
    chosen = dict[JobId, tuple[Entry, Seat]]()
    for entry, seat in seated:
        if entry.job_id not in chosen or chosen[entry.job_id][0].attempt < entry.attempt:
            chosen[entry.job_id] = (entry, seat)
    return chosen
