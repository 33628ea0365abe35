"""What waits for a watcher, in which order, and how it ends."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import UUID

import pytest

from job_api.operations.job_watching import JobSubscription, Position, Progress, StoredPiece
from job_api.operations.subscriptions import ROOM_MIN, EndReason, KeepAlive
from shared.domain.errors import JobNotFound
from shared.domain.events import JobEvent, JobEventKind
from shared.domain.identity import JobId
from shared.domain.jobs import JobState

JOB = JobId(UUID(int=7))


def event(number: int, kind: JobEventKind = JobEventKind.CANCEL_REQUESTED, attempt: int = 1) -> JobEvent:
    return JobEvent(JOB, number, kind, JobState.RUNNING, attempt, datetime(2026, 1, 1, tzinfo=UTC))


def piece(number: int, attempt: int = 1) -> StoredPiece:
    return StoredPiece(JOB, attempt, number, "text")


async def taken(subscription: JobSubscription) -> object:
    return (await subscription.take(keep_alive_seconds=5)).update


def test_a_position_follows_events_and_pieces() -> None:
    at = Position().after_event(event(1, JobEventKind.CREATED, 0))
    assert at == Position(1)
    at = at.after_event(event(2, JobEventKind.STARTED))
    assert at.after_piece(piece(1)).after_piece(piece(2)) == Position(2, 1, 2)
    at = at.after_piece(piece(3)).after_event(event(3))
    assert at == Position(3, 1, 3)
    assert at.after_event(event(4, JobEventKind.ATTEMPT_ENDED)) == Position(4)


async def test_numbered_updates_go_before_progress_of_which_the_latest_counts() -> None:
    subscription = JobSubscription(JOB, Position(2, 1))
    subscription.put_progress(Progress(1, 10, ""))
    subscription.put_progress(Progress(1, 20, ""))
    subscription.put([event(3), piece(1)])
    assert [await taken(subscription) for _ in range(3)] == [event(3), piece(1), Progress(1, 20, "")]
    subscription.put_progress(Progress(1, 20, ""))
    assert (await subscription.take(keep_alive_seconds=0)).update == KeepAlive()


async def test_progress_of_an_attempt_that_is_over_is_dropped() -> None:
    subscription = JobSubscription(JOB, Position(2, 1))
    subscription.put_progress(Progress(1, 90, ""))
    over = event(3, JobEventKind.ATTEMPT_ENDED)
    subscription.put([over])
    assert await taken(subscription) == over
    assert (await subscription.take(keep_alive_seconds=0)).update == KeepAlive()


async def test_a_cursor_stands_for_what_was_taken_not_for_what_waits() -> None:
    subscription = JobSubscription(JOB, Position(2, 1))
    subscription.put([piece(1), piece(2), piece(3)])
    await taken(subscription)
    subscription.end(EndReason.SLOW)
    last = await subscription.take(keep_alive_seconds=5)
    assert (last.update, last.position) == (EndReason.SLOW, Position(2, 1, 1))


async def test_a_watch_that_is_finished_hands_out_what_waits_first_and_the_first_end_counts() -> None:
    subscription = JobSubscription(JOB, Position(2, 1))
    subscription.put([piece(1)])
    subscription.end(EndReason.FINISHED)
    subscription.end(EndReason.DRAINING)
    assert [await taken(subscription) for _ in range(2)] == [piece(1), EndReason.FINISHED]


async def test_a_watch_may_end_with_an_error() -> None:
    subscription = JobSubscription(JOB, Position())
    waiting = asyncio.create_task(taken(subscription))
    await asyncio.sleep(0)
    subscription.end(JobNotFound(JOB))
    with pytest.raises(JobNotFound):
        await waiting


def test_a_watch_has_room_until_enough_waits() -> None:
    subscription = JobSubscription(JOB, Position(2, 1))
    subscription.put([piece(n) for n in range(1, ROOM_MIN)])
    assert subscription.has_room
    subscription.put([piece(ROOM_MIN)])
    assert not subscription.has_room
