"""Filters and places of batches inside tokens."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from job_api.operations import job_filters
from shared.domain.identity import BatchId, JobId
from shared.storage.batches import BatchFilter, BatchPosition


def described(batch_filter: BatchFilter) -> dict[str, Any]:
    """The filter as a JSON value that is the same whenever the filter is."""
    fields = asdict(batch_filter)
    for name in ("created_from", "created_to"):
        fields[name] = fields[name] and fields[name].isoformat()
    return {**fields, "states": sorted(fields["states"])}


def place(at: BatchPosition) -> list[str]:
    """Write a position as a JSON value."""
    return job_filters.place(job_filters.Position(at.create_time, JobId(at.batch_id)))


def position(value: Any) -> BatchPosition:
    """Read what `place` has written.

    Raises:
        TypeError: It is something else.
        ValueError: It is something else.
    """
    read = job_filters.position(value)
    return BatchPosition(read.create_time, BatchId(read.job_id))
