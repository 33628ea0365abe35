"""Watches of jobs in memory: how far each has come, what waits to be sent, and how it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from shared.domain.errors import BatonError
from shared.domain.events import JobEvent, JobEventKind
from shared.domain.identity import JobId
from shared.storage.pieces import StoredPiece

__all__ = [
    "ENDS_OF_ATTEMPTS",
    "EndReason",
    "Feed",
    "KeepAlive",
    "Numbered",
    "Position",
    "Progress",
    "Sent",
    "StoredPiece",
    "Subscription",
    "Update",
]

ROOM_MIN = 64
"""So many numbered updates may wait for a watcher; while more do, nothing is read for it."""

ENDS_OF_ATTEMPTS = frozenset({JobEventKind.ATTEMPT_ENDED, JobEventKind.SUCCEEDED})
"""Every attempt has one of these as its last event but for the job's own end."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """What a watcher has seen.

    Attributes:
        event: Number of the last event; 0 before the first.
        attempt: The attempt that was running after that event; 0 if none was.
        piece: Number of the last piece of that attempt; 0 before the first.
    """

    event: int = 0
    attempt: int = 0
    piece: int = 0

    def after_event(self, event: JobEvent) -> Position:
        if event.kind is JobEventKind.STARTED:
            return Position(event.number, event.attempt)
        if event.kind in ENDS_OF_ATTEMPTS:
            return Position(event.number)
        return Position(event.number, self.attempt, self.piece)

    def after_piece(self, piece: StoredPiece) -> Position:
        return Position(self.event, piece.attempt, piece.number)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt is, in per cent, with a short note."""

    attempt: int
    progress: int
    message: str


class EndReason(StrEnum):
    """Why a watch ended on purpose."""

    FINISHED = "finished"
    SLOW = "slow"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Nothing happened for a while."""


Numbered = JobEvent | StoredPiece
Update = JobEvent | StoredPiece | Progress | KeepAlive | EndReason


@dataclass(frozen=True, slots=True)
class Sent:
    """An update, and what the watcher has seen with it."""

    update: Update
    position: Position


class Subscription:
    """One watch: the feed puts in, one reader takes out; all in one event loop.

    Events and pieces wait in order; of progress only the latest waits.
    """

    def __init__(self, job_id: JobId, position: Position) -> None:
        self.job_id = job_id
        self.position = position
        self._sent = position
        self._waiting: deque[Sent] = deque()
        self._progress: Progress | None = None
        self._progress_seen = Progress(position.attempt, 0, "")
        self._end: EndReason | BatonError | None = None
        self._stirred = asyncio.Event()
        self.full_since: float | None = None

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < ROOM_MIN

    @property
    def ended(self) -> bool:
        return self._end is not None

    def put(self, updates: Iterable[Numbered]) -> None:
        """Let numbered updates wait, and move on behind them."""
        for each in updates:
            if isinstance(each, JobEvent):
                self.position = self.position.after_event(each)
                if not self.position.attempt:
                    self._progress = None  # of an attempt that is over
            else:
                self.position = self.position.after_piece(each)
            self._waiting.append(Sent(each, self.position))
        self._stirred.set()

    def put_progress(self, progress: Progress) -> None:
        """Replace the progress that waits, if this is news."""
        if progress.attempt != self._progress_seen.attempt:
            self._progress_seen = Progress(progress.attempt, 0, "")
        if progress != self._progress_seen:
            self._progress = self._progress_seen = progress
            self._stirred.set()

    def end(self, why: EndReason | BatonError) -> None:
        """End the watch: after what waits if it is finished, at once otherwise. The first end counts."""
        if self._end is not None:
            return
        self._end = why
        if why is not EndReason.FINISHED:
            self._waiting.clear()
        self._progress = None
        self._stirred.set()

    async def take(self, *, keep_alive_seconds: float) -> Sent:
        """Wait for the next update; after `EndReason` there is none.

        Raises:
            BatonError: What the watch ended with.
        """
        try:
            async with asyncio.timeout(keep_alive_seconds):
                while not (self._waiting or self._progress or self._end):
                    self._stirred.clear()
                    await self._stirred.wait()
        except TimeoutError:
            return Sent(KeepAlive(), self._sent)
        return self._next()

    def _next(self) -> Sent:
        if self._waiting:
            sent = self._waiting.popleft()
            self._sent = sent.position
            return sent
        if self._progress is not None:
            progress, self._progress = self._progress, None
            return Sent(progress, self._sent)
        if isinstance(self._end, BatonError):
            raise self._end
        return Sent(self._end or KeepAlive(), self._sent)


class Feed(Protocol):
    """Reads for all watches together."""

    def join(self, subscription: Subscription) -> None:
        """Read for a watch from its position on."""
        ...

    def leave(self, subscription: Subscription) -> None:
        """Read no more for a watch; nothing happens if it has left."""
        ...

    def stir(self, subscription: Subscription) -> None:
        """Hear that a watch has room again."""
        ...
