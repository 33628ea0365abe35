"""Watches one job."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from job_api.operations import opaque, paging
from job_api.operations.caller import Caller
from job_api.operations.job_watching import ENDS_OF_ATTEMPTS, JobSubscription, Position, Update
from job_api.operations.subscriptions import Feed
from job_api.operations.visibility import visible_job
from shared.domain.errors import FieldViolation, InvalidInput
from shared.domain.events import JobEventKind
from shared.domain.identity import JobId
from shared.domain.jobs import Job
from shared.storage.transactions import Transaction, Transactions

_NO_ATTEMPT = ENDS_OF_ATTEMPTS | {
    JobEventKind.CREATED,
    JobEventKind.RETRY_SCHEDULED,
    JobEventKind.FAILED,
    JobEventKind.CANCELLED,
}
"""After these events no attempt runs."""


@dataclass(frozen=True, slots=True)
class WatchCommand:
    """What to watch, and from where on; the cursor, where there is one, goes before the number."""

    job_id: JobId
    after_event: int = 0
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """An update, and the cursor that stands for everything up to it."""

    update: Update
    cursor: str


class WatchJob:
    """A stream of updates until the terminal event; it ends with an `EndReason`."""

    def __init__(
        self, transactions: Transactions, feed: Feed[JobSubscription], *, keep_alive: timedelta
    ) -> None:
        self._transactions = transactions
        self._feed = feed
        self._keep_alive_seconds = keep_alive.total_seconds()

    async def __call__(self, caller: Caller, command: WatchCommand) -> AsyncGenerator[Watched, None]:
        """Yield what happens to a job.

        Raises:
            JobNotFound: There is none for this caller.
            InvalidInput: The cursor is not one of this job's, or the job has no such event yet.
        """
        async with self._transactions.begin() as transaction:
            job = await visible_job(transaction, caller, command.job_id)
            position = await _start(transaction, job, command)
        place = _place(command.job_id)
        subscription = JobSubscription(command.job_id, position)
        watch = subscription.follow(self._feed, keep_alive_seconds=self._keep_alive_seconds)
        async with aclosing(watch) as updates:
            async for sent in updates:
                at = sent.position
                yield Watched(sent.update, opaque.seal(place, [at.event, at.attempt, at.piece]))


def _place(job_id: JobId) -> list[str]:
    return ["watch", str(job_id)]


async def _start(transaction: Transaction, job: Job, command: WatchCommand) -> Position:
    if command.cursor:
        return _position(job, command.cursor)
    number = command.after_event
    if number > job.last_event_number:
        raise InvalidInput([FieldViolation("after_event_number", "the job has no event of this number yet")])
    if number == 0:
        return Position()
    (event, *_) = await transaction.events.after({job.job_id: number - 1}, limit=1)
    return Position(number, 0 if event.kind in _NO_ATTEMPT else event.attempt)


def _position(job: Job, cursor: str) -> Position:
    try:
        return _checked(job, opaque.unseal(_place(job.job_id), cursor))
    except (ValueError, TypeError):
        raise InvalidInput([FieldViolation("cursor", "is not a cursor of this job's watches")]) from None


def _checked(job: Job, value: Any) -> Position:
    event, attempt, piece = map(paging.ordinal, value)
    if event > job.last_event_number or attempt > job.attempt:
        raise ValueError
    return Position(event, attempt, piece)
