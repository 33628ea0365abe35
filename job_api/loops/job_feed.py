"""Reads events, pieces and progress of watched jobs, of many by one statement each.

Order: a piece of an attempt comes after the events that start it, and before the one that ends it. The
statements see the database at different times, so the order of reading makes the order of telling: pieces are
read before the events, hence what began them is among the events that are read; and the end of an attempt is
told only with pieces that were read after it, hence with all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from job_api.loops.subject_feed import SubjectFeed
from job_api.operations.job_watching import (
    ENDS_OF_ATTEMPTS,
    JobSubscription,
    Numbered,
    Position,
    Progress,
)
from job_api.operations.subscriptions import EndReason
from shared.domain.errors import JobNotFound
from shared.domain.events import JobEvent, JobEventKind
from shared.domain.identity import JobId
from shared.domain.jobs import TERMINAL_STATES, Job, JobState
from shared.storage.pieces import StoredPiece
from shared.storage.transactions import Transaction

EVENTS_MAX = 64
PIECES_MAX = 64
"""Of one job in one step; a piece has 64 KiB at most."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was read about a job from a position on.

    Attributes:
        numbered: Events and pieces in the order in which they are told.
        complete: Nothing was held back, as far as could be seen.
    """

    numbered: Sequence[Numbered]
    complete: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A job, and what is new about it; the job was read last."""

    told: Told
    job: Job


@dataclass(slots=True)
class _Read:
    """What the statements returned for one job."""

    events: list[JobEvent] = field(default_factory=list)
    pieces: list[StoredPiece] = field(default_factory=list)
    last_pieces: list[StoredPiece] = field(default_factory=list)
    """Pieces of the first attempt that ends among the events, read after them."""
    to_the_end: bool = False
    """Whether those were read, and fitted."""


class JobFeed(SubjectFeed[JobId, JobSubscription, Found]):
    """Hands events, pieces and progress to the watchers of jobs; the poll is also for progress."""

    subject_field = "job_id"

    def _subject(self, subscription: JobSubscription) -> JobId:
        return subscription.job_id

    async def _read(
        self, transaction: Transaction, positions: Mapping[JobId, Position]
    ) -> Mapping[JobId, Found]:
        told = await _told_of(transaction, positions)
        jobs = await transaction.jobs.get_many(list(positions))
        return {job_id: Found(told[job_id], job) for job_id, job in jobs.items()}

    def _hand_out(self, subscription: JobSubscription, news: Found | None) -> bool:
        if news is None:
            subscription.end(JobNotFound(subscription.job_id))
            return True
        job = news.job
        subscription.put(news.told.numbered)
        at = subscription.position
        if job.state in TERMINAL_STATES and at.event >= job.last_event_number:
            subscription.end(EndReason.FINISHED)
        elif job.state is JobState.RUNNING and at.attempt == job.attempt:
            subscription.put_progress(Progress(job.attempt, job.progress, job.progress_message))
        return news.told.complete


async def _told_of(transaction: Transaction, positions: Mapping[JobId, Position]) -> dict[JobId, Told]:
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


def _told(read: _Read) -> Told:
    """Put events and pieces of one job in order, and hold back what can't be told yet."""
    end = _first_end(read.events)
    full = len(read.events) == EVENTS_MAX
    if end is None:
        # The event that begins these pieces may be among those that did not fit.
        pieces = read.pieces if not full else []
        complete = not (full or _starts(read.events) or len(pieces) == PIECES_MAX)
        told: list[Numbered] = [*read.events, *pieces]
        return Told(told, complete)
    first: list[Numbered] = [*read.events[:end], *read.pieces, *read.last_pieces]
    if not read.to_the_end:
        return Told(first, complete=False)
    following = read.events[end + 1 :]
    next_end = _first_end(following)
    following = following[:next_end]
    complete = next_end is None and not full and not _starts(following)
    return Told([*first, read.events[end], *following], complete)


def _starts(events: Sequence[JobEvent]) -> bool:
    """Whether an attempt starts, whose pieces were not asked for."""
    return any(each.kind is JobEventKind.STARTED for each in events)
