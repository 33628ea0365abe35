"""Watches all jobs that fit a filter."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta

from job_api.operations.caller import Caller
from job_api.operations.job_filters import JobFilter
from job_api.operations.live_watching import LiveReader, LiveUpdate, LiveView
from job_api.operations.subscriptions import EndReason


class WatchJobs:
    """A live view without end of its own; where the service ends it, it says why with an `EndReason`."""

    def __init__(self, reader: LiveReader, *, keep_alive: timedelta) -> None:
        self._reader = reader
        self._keep_alive_seconds = keep_alive.total_seconds()

    async def __call__(self, caller: Caller, job_filter: JobFilter) -> AsyncGenerator[LiveUpdate, None]:
        """Yield the jobs that the caller may see and the filter lets through, as they change.

        Raises:
            PermissionDenied: The filter names another owner, and the caller may not see all.
        """
        view = LiveView(replace(job_filter, owner=caller.looking_at(job_filter.owner)))
        self._reader.join(view)
        try:
            ended = False
            while not ended:
                update = await view.take(keep_alive_seconds=self._keep_alive_seconds)
                ended = isinstance(update, EndReason)
                yield update
        finally:
            self._reader.leave(view)
