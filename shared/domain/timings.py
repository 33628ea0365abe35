"""Where a job's time has gone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

_NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True)
class JobTimings:
    """How a job's life splits up to its end, or up to now while it goes on; the first three make the last.

    Attributes:
        waiting: Before its first attempt started.
        running: In attempts, however they ended.
        between_attempts: After its first attempt had started, without one.
    """

    waiting: timedelta
    running: timedelta
    between_attempts: timedelta
    total: timedelta


def timings(
    *,
    create_time: datetime,
    start_time: datetime | None,
    finish_time: datetime | None,
    running: timedelta,
    now: datetime,
) -> JobTimings:
    """Split a job's life.

    Args:
        start_time: Of its first attempt; None before.
        running: What its attempts have taken together, up to `now` if one goes on.
        now: All times are of the database's clock. Where it was set back, no part is negative all the same.
    """
    total = max((finish_time or now) - create_time, _NOTHING)
    if start_time is None:
        return JobTimings(total, _NOTHING, _NOTHING, total)
    waiting = min(max(start_time - create_time, _NOTHING), total)
    running = min(running, total - waiting)
    return JobTimings(waiting, running, total - waiting - running, total)
