"""Watches of jobs in memory: how far each has come, and what waits to be sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from job_api.operations.subscriptions import EndReason, KeepAlive, Sent, Subscription
from shared.domain.events import JobEvent, JobEventKind
from shared.domain.identity import JobId
from shared.storage.pieces import StoredPiece

__all__ = [
    "ENDS_OF_ATTEMPTS",
    "JobSubscription",
    "Numbered",
    "Position",
    "Progress",
    "StoredPiece",
    "Update",
]

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


Numbered = JobEvent | StoredPiece
Update = JobEvent | StoredPiece | Progress | KeepAlive | EndReason


class JobSubscription(Subscription[Numbered | Progress, Position]):
    """One watch of a job: events and pieces wait in order, and of progress only the latest."""

    def __init__(self, job_id: JobId, position: Position) -> None:
        super().__init__(position)
        self.job_id = job_id
        self._progress_seen = Progress(position.attempt, 0, "")

    def put(self, updates: Iterable[Numbered]) -> None:
        """Let numbered updates wait, and move on behind them; nothing happens if the watch has ended."""
        if not self.ended:
            self._let_wait([self._behind(each) for each in updates])

    def put_progress(self, progress: Progress) -> None:
        """Replace the progress that waits, if this is news."""
        if progress.attempt != self._progress_seen.attempt:
            self._progress_seen = Progress(progress.attempt, 0, "")
        if progress != self._progress_seen:
            self._progress_seen = progress
            self._let_latest_wait(progress)

    def _behind(self, update: Numbered) -> Sent[Numbered | Progress, Position]:
        if isinstance(update, JobEvent):
            self.position = self.position.after_event(update)
            if not self.position.attempt:
                self._latest = None  # of an attempt that is over
        else:
            self.position = self.position.after_piece(update)
        return Sent(update, self.position)
