"""The channels on which hints travel."""

from __future__ import annotations

from enum import StrEnum


class Channel(StrEnum):
    """What hints are about."""

    STREAMS_FILLED = "streams_filled"
    JOBS_CHANGED = "jobs_changed"
    BATCHES_CHANGED = "batches_changed"
    CANCELS_REQUESTED = "cancels_requested"


def channel_name(prefix: str, channel: Channel) -> str:
    """Name a channel in Redis."""
    return f"{prefix}wake:{channel}"
