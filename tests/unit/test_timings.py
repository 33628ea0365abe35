"""A job's life is split without a remainder, whatever its clock does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared.domain.timings import JobTimings, timings

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return CREATED + timedelta(seconds=seconds)


def split(
    *, started: float | None = None, finished: float | None = None, running: float = 0, now: float = 100
) -> tuple[float, ...]:
    """Waiting, running, between attempts and in all, in seconds."""
    found = timings(
        create_time=CREATED,
        start_time=None if started is None else at(started),
        finish_time=None if finished is None else at(finished),
        running=timedelta(seconds=running),
        now=at(now),
    )
    assert found.waiting + found.running + found.between_attempts == found.total
    return tuple(
        each.total_seconds() for each in (found.waiting, found.running, found.between_attempts, found.total)
    )


@pytest.mark.parametrize(
    ("life", "parts"),
    [
        ({}, (100, 0, 0, 100)),
        ({"finished": 30}, (30, 0, 0, 30)),
        ({"started": 10, "running": 90}, (10, 90, 0, 100)),
        ({"started": 10, "running": 50}, (10, 50, 40, 100)),
        ({"started": 10, "running": 20, "finished": 60}, (10, 20, 30, 60)),
        ({"started": 0, "running": 0, "finished": 0}, (0, 0, 0, 0)),
    ],
    ids=str,
)
def test_a_life_is_split(life: dict[str, float], parts: tuple[float, ...]) -> None:
    assert split(**life) == parts


@pytest.mark.parametrize(
    ("life", "parts"),
    [
        ({"now": -5}, (0, 0, 0, 0)),
        ({"started": -3, "running": 10, "finished": 20}, (0, 10, 10, 20)),
        ({"started": 50, "running": 5, "finished": 20}, (20, 0, 0, 20)),
        ({"started": 5, "running": 100, "finished": 20}, (5, 15, 0, 20)),
    ],
    ids=str,
)
def test_no_part_is_negative_where_the_clock_was_set_back(
    life: dict[str, float], parts: tuple[float, ...]
) -> None:
    assert split(**life) == parts


def test_what_has_not_begun_has_taken_no_time() -> None:
    nothing = timedelta(0)
    assert timings(
        create_time=CREATED, start_time=None, finish_time=None, running=nothing, now=CREATED
    ) == JobTimings(nothing, nothing, nothing, nothing)
