"""What a watched batch looks like: a bar with its counters in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from job_api.command import show
from job_api.command.batch_tables import counted

if TYPE_CHECKING:
    from job_api.client import BatchCounters, BatchEvent

    What: TypeAlias = BatchEvent | BatchCounters

_COUNTERS_EVERY_SECONDS = 1.0
"""Counters are a line of their own no more often: ten thousand items would be as many lines."""


class PlainBatchPrinter:
    """A line for each change of state and each item that fails, and now and then one for the counters."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._counted_at = monotonic()

    def __enter__(self) -> PlainBatchPrinter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def take(self, what: What) -> None:
        from job_api.client import BatchEvent

        if not isinstance(what, BatchEvent):
            self._counters(what)
            return
        if what.error is not None:
            show.line(f"{_clock(what)}  item {what.item} failed  {what.error.code}: {what.error.message}")
        if not what.item:
            show.line(
                f"{_clock(what)}  {what.state}  {counted(what.counters)}", style=show.state_style(what.state)
            )
        self._counters(what.counters)

    def _counters(self, counters: BatchCounters) -> None:
        now = self._monotonic()
        if now - self._counted_at >= _COUNTERS_EVERY_SECONDS:
            self._counted_at = now
            show.line(counted(counters))


class LiveBatchPrinter(PlainBatchPrinter):
    """A bar below the lines, of the items that have ended, with the counters beside it."""

    def __init__(self, size: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        super().__init__()
        self._bars = Progress(
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=show.console(),
        )
        self._bar = self._bars.add_task("", total=size)

    def __enter__(self) -> LiveBatchPrinter:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def _counters(self, counters: BatchCounters) -> None:
        ended = counters.succeeded + counters.failed + counters.skipped
        self._bars.update(self._bar, completed=ended, description=counted(counters))


def _clock(event: BatchEvent) -> str:
    return f"{event.event_time.astimezone():%H:%M:%S}"
