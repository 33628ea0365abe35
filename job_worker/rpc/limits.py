"""What executors may send."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExecutionLimits:
    """What the service takes at most, as the welcome says."""

    frame_bytes_max: int
    output_bytes_max: int
    piece_bytes_max: int
    progress_message_characters_max: int
