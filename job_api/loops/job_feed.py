"""Reads what is new about watched jobs, once for all their watchers.

A hint, a new watcher or the slow poll says which jobs to look at; the step reads events, pieces and progress
of many jobs by one statement each. Postgres is authoritative, and each watcher's position says what it has
seen, so a lost hint costs a poll, and a crash a resume from the cursor.

Order: a piece of an attempt comes after the events that start it, and before the one that ends it. The
statements see the database at different times, so the order of reading makes the order of telling: pieces are
read before the events, hence what began them is among the events that are read; and the end of an attempt is
told only with pieces that were read after it, hence with all of them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from job_api.loops.slow_watches import found_slow
from job_api.operations.watching import (
    ENDS_OF_ATTEMPTS,
    EndReason,
    Numbered,
    Position,
    Progress,
    Subscription,
)
from shared.domain.errors import JobNotFound
from shared.domain.events import JobEvent, JobEventKind
from shared.domain.identity import JobId
from shared.domain.jobs import TERMINAL_STATES, Job, JobState
from shared.storage.pieces import StoredPiece
from shared.storage.transactions import Transaction, Transactions

log = structlog.get_logger(__name__)

JOBS_PER_STEP_MAX = 500
"""Jobs in one statement; a thousand watched jobs are two steps."""
EVENTS_MAX = 64
PIECES_MAX = 64
"""Of one job in one step; a piece has 64 KiB at most."""


@dataclass(frozen=True, slots=True)
class News:
    """What was read about a job from a position on.

    Attributes:
        numbered: Events and pieces in the order in which they are told.
        complete: Nothing was held back, as far as could be seen.
    """

    numbered: Sequence[Numbered]
    complete: bool


@dataclass(slots=True)
class _Read:
    """What the statements returned for one job."""

    events: list[JobEvent] = field(default_factory=list)
    pieces: list[StoredPiece] = field(default_factory=list)
    last_pieces: list[StoredPiece] = field(default_factory=list)
    """Pieces of the first attempt that ends among the events, read after them."""
    to_the_end: bool = False
    """Whether those were read, and fitted."""


class JobFeed:
    """Hands news to subscriptions whose queues have room; one that has none for too long is ended."""

    def __init__(
        self,
        transactions: Transactions,
        *,
        slow_after: timedelta,
        monotonic: Callable[[], float],
        wake: asyncio.Event,
    ) -> None:
        self._transactions = transactions
        self._slow_seconds = slow_after.total_seconds()
        self._monotonic = monotonic
        self._wake = wake
        self._watches: defaultdict[JobId, set[Subscription]] = defaultdict(set)
        self._due: dict[Subscription, None] = {}  # in the order in which they became due
        self._foremost_first = True
        self._draining = False

    def join(self, subscription: Subscription) -> None:
        if self._draining:
            subscription.end(EndReason.DRAINING)
            return
        self._watches[subscription.job_id].add(subscription)
        self._look_for(subscription)

    def leave(self, subscription: Subscription) -> None:
        self._due.pop(subscription, None)
        watches = self._watches.get(subscription.job_id, set())
        watches.discard(subscription)
        if not watches:
            self._watches.pop(subscription.job_id, None)

    def stir(self, subscription: Subscription) -> None:
        subscription.full_since = None
        self._look_for(subscription)

    def is_watched(self) -> bool:
        """Whether hints are of any use."""
        return bool(self._watches)

    def note(self, job_ids: frozenset[JobId]) -> None:
        """Hear a hint that these jobs have changed; those that nobody watches don't matter."""
        for job_id in job_ids & self._watches.keys():
            self._look_for(*self._watches[job_id])

    async def drain(self) -> None:
        """End every watch, and each that comes later."""
        self._draining = True
        for each in self._all():
            each.end(EndReason.DRAINING)

    async def poll(self) -> bool:
        """Look for news of everything: what a lost hint missed, and progress. End those who are too slow."""
        self._end_slow()
        self._look_for(*self._all())
        return False

    async def step(self) -> bool:
        """Read for the watches that are due, hand out, and return True if there may be more."""
        chosen = self._chosen()
        if not chosen:
            return False
        positions = {job_id: watches[0].position for job_id, watches in chosen.items()}
        taken = [each for watches in chosen.values() for each in watches]
        for each in taken:  # before reading: a hint that comes meanwhile counts again
            del self._due[each]
        try:
            async with self._transactions.begin() as transaction:
                news = await _news(transaction, positions)
                jobs = await transaction.jobs.get_many(list(positions))
        except BaseException:
            self._due.update(
                dict.fromkeys(each for each in taken if each in self._watches.get(each.job_id, ()))
            )
            raise
        for job_id, watches in chosen.items():
            self._hand_out(job_id, watches, news[job_id], jobs.get(job_id))
        return bool(self._due)

    def _is_watching(self, subscription: Subscription) -> bool:
        return subscription in self._watches.get(subscription.job_id, ())

    def _all(self) -> list[Subscription]:
        return [each for watches in self._watches.values() for each in watches]

    def _look_for(self, *subscriptions: Subscription) -> None:
        self._due.update(dict.fromkeys(subscriptions))
        if subscriptions:
            self._wake.set()

    def _end_slow(self) -> None:
        now = self._monotonic()
        for each in found_slow(self._all(), now=now, slow_seconds=self._slow_seconds):
            log.info("watch.too_slow", job_id=str(each.job_id))
            each.end(EndReason.SLOW)

    def _chosen(self) -> dict[JobId, list[Subscription]]:
        """Choose for each job with due watches those to read for, all at one position.

        Where watches of a job stand apart, the foremost and the hindmost take turns, so that one that
        catches up does not hold the others back.
        """
        self._foremost_first = not self._foremost_first
        pick = max if self._foremost_first else min
        ready: dict[JobId, list[Subscription]] = {}
        for each in list(self._due):
            if each.ended or not each.has_room:
                del self._due[each]  # `stir` or the poll bring it back
            elif each.job_id in ready or len(ready) < JOBS_PER_STEP_MAX:
                ready.setdefault(each.job_id, []).append(each)
        return {job_id: _at(pick(each.position for each in due), due) for job_id, due in ready.items()}

    def _hand_out(self, job_id: JobId, watches: list[Subscription], news: News, job: Job | None) -> None:
        for each in watches:
            if job is None:
                each.end(JobNotFound(job_id))
                continue
            each.put(news.numbered)
            if job.state in TERMINAL_STATES and each.position.event >= job.last_event_number:
                each.end(EndReason.FINISHED)
            elif job.state is JobState.RUNNING and each.position.attempt == job.attempt:
                each.put_progress(Progress(job.attempt, job.progress, job.progress_message))
            if not news.complete and self._is_watching(each):
                self._due.setdefault(each)


def _at(position: Position, watches: Sequence[Subscription]) -> list[Subscription]:
    return [each for each in watches if each.position == position]


async def _news(transaction: Transaction, positions: Mapping[JobId, Position]) -> dict[JobId, News]:
    """Read what follows these positions; the order of the statements is what the module's page is about."""
    read = {job_id: _Read() for job_id in positions}
    seen = {job_id: (at.attempt, at.piece) for job_id, at in positions.items() if at.attempt}
    for piece in await transaction.pieces.after(seen, limit=PIECES_MAX) if seen else ():
        read[piece.job_id].pieces.append(piece)
    numbers = {job_id: at.event for job_id, at in positions.items()}
    for event in await transaction.events.after(numbers, limit=EVENTS_MAX):
        read[event.job_id].events.append(event)
    ending = {
        job_id: behind
        for job_id, each in read.items()
        if (behind := _last_piece_before_end(each, positions[job_id])) is not None
    }
    for piece in await transaction.pieces.after(ending, limit=PIECES_MAX) if ending else ():
        read[piece.job_id].last_pieces.append(piece)
    for job_id in ending:
        read[job_id].to_the_end = len(read[job_id].last_pieces) < PIECES_MAX
    return {job_id: _told(each) for job_id, each in read.items()}


def _last_piece_before_end(read: _Read, position: Position) -> tuple[int, int] | None:
    """Return attempt and piece from which on to read up to the attempt's end; None if it is not in sight."""
    end = _first_end(read.events)
    if end is None or len(read.pieces) == PIECES_MAX:
        return None
    attempt = read.events[end].attempt
    seen = position.piece if position.attempt == attempt else 0
    return attempt, read.pieces[-1].number if read.pieces else seen


def _first_end(events: Sequence[JobEvent]) -> int | None:
    return next((index for index, each in enumerate(events) if each.kind in ENDS_OF_ATTEMPTS), None)


def _told(read: _Read) -> News:
    """Put events and pieces of one job in order, and hold back what can't be told yet."""
    end = _first_end(read.events)
    full = len(read.events) == EVENTS_MAX
    if end is None:
        # The event that begins these pieces may be among those that did not fit.
        pieces = read.pieces if not full else []
        complete = not (full or _starts(read.events) or len(pieces) == PIECES_MAX)
        told: list[Numbered] = [*read.events, *pieces]
        return News(told, complete)
    first: list[Numbered] = [*read.events[:end], *read.pieces, *read.last_pieces]
    if not read.to_the_end:
        return News(first, complete=False)
    following = read.events[end + 1 :]
    next_end = _first_end(following)
    following = following[:next_end]
    complete = next_end is None and not full and not _starts(following)
    return News([*first, read.events[end], *following], complete)


def _starts(events: Sequence[JobEvent]) -> bool:
    """Whether an attempt starts, whose pieces were not asked for."""
    return any(each.kind is JobEventKind.STARTED for each in events)
