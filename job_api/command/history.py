"""What was tried for a job, and where its time has gone, as people read it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from job_api.command import show

if TYPE_CHECKING:
    from job_api.client import AttemptView, JobTimings, ShownJobView

_MINUTE_SECONDS = 60


def times(view: ShownJobView) -> None:
    """Print a line on where a job's time has gone."""
    show.line(f"{'time':<10} {_told(view.timings, view.attempt)}")


def attempts(views: Sequence[AttemptView]) -> None:
    """Print a table of attempts below what stands above it, if there are any."""
    if views:
        show.line("")
        show.attempts(views)


def _told(timings: JobTimings, attempt: int) -> str:
    parts = [f"waited {span(timings.waiting)}"]
    if attempt:
        count = "an attempt" if attempt == 1 else f"{attempt} attempts"
        parts.append(f"ran {span(timings.running)} in {count}")
    if timings.between_attempts:
        parts.append(f"{span(timings.between_attempts)} between attempts")
    return f"{', '.join(parts)}: {span(timings.total)} in all"


def span(time: timedelta) -> str:
    """Tenths of seconds below a minute, else 1:02:03."""
    seconds = time.total_seconds()
    return f"{seconds:.1f} s" if seconds < _MINUTE_SECONDS else f"{timedelta(seconds=int(seconds))}"
