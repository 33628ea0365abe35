"""How `baton top` looks: as much as fits into the terminal, what matters most first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from job_api.command import show
from job_api.command.operator_tables import age
from job_api.command.top_snapshot import LISTED_MAX

if TYPE_CHECKING:
    from job_api.client import ExecutorView, JobView, QueueView
    from job_api.command.top_snapshot import Snapshot

_FAILURES_SHARE = 4
"""Failures, and executors, get one line in so many at least, where there are as many of them."""
_FRAME = 2
"""Lines of a table beside its rows: an empty one, and the head."""


@dataclass(frozen=True, slots=True)
class Board:
    """A snapshot in a terminal of any size.

    Attributes:
        note: What is wrong with looking again, if anything is.
    """

    snapshot: Snapshot
    note: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.within(options.height or options.size.height)

    def within(self, height: int) -> Group:
        """Lay out what fits into so many lines."""
        parts: list[RenderableType] = [_headline(self.snapshot)]
        if self.note:
            parts.append(Text(self.note, style="bold red", no_wrap=True, overflow="ellipsis"))
        now = self.snapshot.time
        queues = sorted(self.snapshot.queues, key=_busiest_first)
        rows = _shares(
            height - len(parts) - 3 * _FRAME,
            [len(queues), len(self.snapshot.executors), len(self.snapshot.failures)],
        )
        executors = sorted(self.snapshot.executors, key=lambda each: -each.leases)
        for title, table, found in (
            ("queues", _queues(queues[: rows[0]]), queues),
            ("executors", _executors(executors[: rows[1]], now), executors),
            ("failures", _failures(self.snapshot.failures[: rows[2]], now), self.snapshot.failures),
        ):
            hidden = len(found) - table.row_count
            parts.append(Text(f"{title} ({hidden} more)" if hidden else title, style="bold cyan"))
            parts.append(table)
        return Group(*parts)


def _shares(lines: int, wanted: Sequence[int]) -> Sequence[int]:
    """Say how many rows each table gets: a part each for the last two, and the first one has the rest.

    What one does not want goes to the others.
    """
    queues, executors, failures = wanted
    least = max(1, lines // _FAILURES_SHARE)
    first = max(1, min(queues, lines - min(executors, least) - min(failures, least)))
    second = max(0, min(executors, lines - first - min(failures, least)))
    return first, second, max(0, min(failures, lines - first - second))


def _headline(snapshot: Snapshot) -> Text:
    queues = snapshot.queues
    started = [each.started_last_minute for each in queues if each.started_last_minute is not None]
    many = "+" if any(each.more_waiting for each in queues) else ""
    executors = f"{len(snapshot.executors)}{'+' if len(snapshot.executors) == LISTED_MAX else ''}"
    parts = [
        f"baton  {snapshot.time.astimezone():%H:%M:%S}",
        f"waiting {sum(each.waiting for each in queues)}{many}",
        f"running {sum(each.running for each in queues)}",
        f"started {sum(started)}/min" if started else "",
        f"finished {sum(each.finished_last_minute for each in queues)}/min",
        f"executors {executors}",
    ]
    return Text("   ".join(each for each in parts if each), style="bold", no_wrap=True, overflow="ellipsis")


def _busiest_first(queue: QueueView) -> tuple[int, int, str]:
    return -queue.running - queue.waiting, -queue.finished_last_minute, queue.queue


def _table(*columns: str) -> Table:
    """Make a table whose last column gives way to the others."""
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in _FIGURES else "left",
            ratio=1 if column == columns[-1] else None,
            no_wrap=True,
            overflow="ellipsis",
        )
    return table


_FIGURES = frozenset({"waiting", "running", "oldest", "started", "finished", "served", "credits", "leases"})


def _queues(queues: Sequence[QueueView]) -> Table:
    started = ("started",) if any(each.started_last_minute is not None for each in queues) else ()
    table = _table("queue", "waiting", "running", "oldest", *started, "finished", "served", "credits", "")
    for each in queues:
        unserved = each.waiting > 0 and each.executors == 0
        table.add_row(
            each.queue,
            f"{each.waiting}{'+' if each.more_waiting else ''}",
            f"{each.running}",
            age(each.oldest_due_age),
            *(_known(each.started_last_minute) for _ in started),
            f"{each.finished_last_minute}",
            f"{each.executors}",
            _known(each.credits),
            "paused" if each.pause is not None else "nobody serves it" if unserved else "",
            style="yellow" if each.pause is not None else "red" if unserved else None,
        )
    return table


def _executors(executors: Sequence[ExecutorView], now: datetime) -> Table:
    known = ("credits",) if any(each.credits is not None for each in executors) else ()
    table = _table("executor", "leases", *known, "last seen", "", "job types")
    for each in executors:
        table.add_row(
            Text(each.executor_name),
            f"{each.leases}",
            *(_known(each.credits) for _ in known),
            show.short_moment(each.last_seen_time, now),
            "draining" if each.draining else "",
            Text(", ".join(each.job_types)),
        )
    return table


def _failures(jobs: Sequence[JobView], now: datetime) -> Table:
    table = _table("failed", "job", "type", "error")
    for each in jobs:
        error = each.error
        table.add_row(
            show.short_moment(each.finish_time, now),
            f"{each.job_id}",
            each.job_type,
            Text(" ".join(f"{error.code}: {error.message}".split()) if error is not None else ""),
        )
    return table


def _known(figure: int | None) -> str:
    return "" if figure is None else f"{figure}"
