"""Places of jobs inside tokens, for lists and for calls about all jobs of a filter."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from job_api.operations import paging
from shared.domain.identity import JobId
from shared.storage.jobs import JobFilter, Position

__all__ = ["JobFilter", "Position", "place", "position"]


def place(at: Position) -> list[str]:
    """Write a position as a JSON value."""
    return [paging.moment(at.create_time), str(at.job_id)]


def position(value: Any) -> Position:
    """Read what `place` has written.

    Raises:
        TypeError: It is something else.
        ValueError: It is something else.
    """
    create_time, job_id = value
    return Position(paging.time(create_time), JobId(UUID(paging.text(job_id))))
