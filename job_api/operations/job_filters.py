"""Filters and places of jobs inside tokens, for lists and for calls about all jobs of a filter."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from job_api.operations import paging
from shared.domain.identity import JobId
from shared.storage.jobs import JobFilter, Position

__all__ = ["JobFilter", "Position", "described", "place", "position"]


def described(job_filter: JobFilter) -> dict[str, Any]:
    """The filter as a JSON value that is the same whenever the filter is."""
    fields = asdict(job_filter)
    for name in ("created_from", "created_to"):
        fields[name] = fields[name] and fields[name].isoformat()
    batch_id = fields["batch_id"] and str(fields["batch_id"])
    return {**fields, "batch_id": batch_id, "states": sorted(fields["states"])}


def place(at: Position) -> list[str]:
    """Write a position as a JSON value."""
    return [at.create_time.astimezone(UTC).isoformat(), str(at.job_id)]


def position(value: Any) -> Position:
    """Read what `place` has written.

    Raises:
        TypeError: It is something else.
        ValueError: It is something else.
    """
    create_time, job_id = map(paging.text, value)
    moment = datetime.fromisoformat(create_time)
    if moment.tzinfo is None:
        raise ValueError
    return Position(moment.astimezone(UTC), JobId(UUID(job_id)))
