"""What waits in a live view, who is told that a job has left it, and when views are ended."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest

from job_api.loops import live_jobs
from job_api.loops.live_jobs import LiveJobs
from job_api.operations import live_watching
from job_api.operations.job_filters import JobFilter
from job_api.operations.job_matching import JobMatch
from job_api.operations.live_watching import Began, LiveView, Shown
from job_api.operations.subscriptions import EndReason, KeepAlive
from shared.domain.identity import JobId, JobType, Owner, QueueName
from shared.domain.jobs import Job, JobState, Target


def a_job(number: int, state: JobState = JobState.QUEUED, **changes: Any) -> Job:
    fields: dict[str, Any] = {
        "job_id": JobId(UUID(int=number)),
        "owner": Owner("ada"),
        "job_type": JobType("synthetic"),
        "queue": QueueName("drill"),
        "state": state,
        "priority": 50,
        "progress": 0,
        "progress_message": "",
        "create_time": datetime(2030, 1, 1, tzinfo=UTC),
        "start_time": None,
        "finish_time": None,
        "start_by_time": None,
        "next_attempt_time": None,
        "attempt": 0,
        "failures": 0,
        "losses": 0,
        "error": None,
        "cancellation": None,
        "artifact_count": 0,
        "output_hash": "",
        "origin_job_id": None,
        "target": Target("course", "maths"),
        "labels": {},
        "input_schema_version": 1,
        "output_schema_version": 1,
        "last_event_number": 1,
    }
    return Job(**(fields | changes))


async def taken(view: LiveView) -> object:
    return await view.take(keep_alive_seconds=5)


async def test_of_each_job_the_latest_waits_at_the_place_of_the_first() -> None:
    view = LiveView(JobFilter())
    view.begin()
    first, second = a_job(1), a_job(2)
    later = replace(first, state=JobState.RUNNING)
    for job in (first, second, later):
        view.show(Shown(job, left=False))
    assert await taken(view) == Began()
    assert [await taken(view) for _ in range(2)] == [Shown(later, left=False), Shown(second, left=False)]
    assert await view.take(keep_alive_seconds=0.001) == KeepAlive()


async def test_a_view_with_too_much_waiting_is_ended_and_shows_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_watching, "WAITING_MAX", 2)
    view = LiveView(JobFilter())
    for number in range(4):
        view.show(Shown(a_job(number), left=False))
    assert view.ended
    assert [await taken(view) for _ in range(2)] == [EndReason.SLOW] * 2


@pytest.mark.parametrize(
    ("states", "before", "now", "left"),
    [
        ({JobState.RUNNING}, JobState.RUNNING, JobState.SUCCEEDED, True),
        ({JobState.RUNNING}, JobState.QUEUED, JobState.CANCELLED, False),
        ({JobState.RUNNING}, None, JobState.FAILED, True),
        ({JobState.RUNNING}, None, JobState.QUEUED, False),
        ({JobState.QUEUED}, None, JobState.RUNNING, True),
        ({JobState.QUEUED}, None, JobState.SUCCEEDED, True),
        ({JobState.QUEUED}, JobState.RUNNING, JobState.RUNNING, False),
        ({JobState.FAILED}, None, JobState.SUCCEEDED, False),
        ({JobState.SUCCEEDED, JobState.FAILED}, None, JobState.RUNNING, False),
    ],
)
def test_a_job_has_left_if_it_fitted_or_may_have(
    states: set[JobState], before: JobState | None, now: JobState, left: bool
) -> None:
    match = JobMatch(JobFilter(owner=Owner("ada"), states=frozenset(states)))
    seen = a_job(1, before) if before is not None else None
    job = a_job(1, now)
    assert not match.fits(job)
    assert match.was_left(job, seen) is left
    stranger = JobMatch(JobFilter(owner=Owner("bob"), states=frozenset(states)))
    assert not stranger.was_left(job, seen)


async def test_views_end_when_more_changes_than_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_jobs, "DUE_MAX", 2)
    reader = LiveJobs(cast("Any", None), wake=asyncio.Event())
    views = [LiveView(JobFilter()), LiveView(JobFilter(owner=Owner("ada")))]
    for view in views:
        reader.join(view)
    reader.note([JobId(UUID(int=number)) for number in range(3)])
    assert [await taken(view) for view in views] == [EndReason.SLOW] * 2


async def test_hints_are_heeded_only_while_somebody_watches() -> None:
    reader = LiveJobs(cast("Any", None), wake=asyncio.Event())
    view = LiveView(JobFilter(labels={"a": "1"}))
    assert not reader.is_watched()
    reader.join(view)
    assert reader.is_watched()
    reader.leave(view)
    reader.leave(view)
    assert not reader.is_watched()
    reader.note([JobId(UUID(int=1))])
    assert await reader.step() is False
    assert await reader.poll() is False
    await reader.drain()
    reader.join(view)
    assert await taken(view) is EndReason.DRAINING
