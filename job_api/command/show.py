"""What commands print: JSON for scripts, tables and lines for people.

Colours are for terminals only, and for no one who sets NO_COLOR; rich sees to both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from job_api.client import ArtifactView, AttemptView, BatchView, JobError, JobView

_STYLES = {
    "SUCCEEDED": "green",
    "AWAITING_REVIEW": "green",
    "FAILED": "red",
    "PARTIALLY_FAILED": "red",
    "CANCELLED": "yellow",
    "RUNNING": "cyan",
}
_WIDTH_WITHOUT_TERMINAL = 200
"""Lines in files and pipes are for grep, so tables are not squeezed there."""
_EXCERPT_CHARACTERS = 60


@cache
def console() -> Console:
    from rich.console import Console

    class PipedConsole(Console):
        """Leaves it to `ending` what happens when nobody reads any more."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return PipedConsole(highlight=False, markup=False, emoji=False, width=width)


def line(text: str, *, style: str | None = None) -> None:
    console().print(text, style=style, soft_wrap=True)


def document(value: Any) -> None:
    """Print a value as one indented JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def json_line(value: Any) -> None:
    """Print a value as one line, at once: who reads it may be waiting."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def job(view: JobView) -> None:
    """Print what there is to say of a job, a line for each thing."""
    error = view.error or view.last_attempt_error
    told = {
        "job": f"{view.job_id}",
        "type": f"{view.job_type}, queue {view.queue}, priority {view.priority}",
        "owner": view.owner,
        "state": f"{view.state}",
        "progress": _progress(view),
        "attempt": _attempt(view),
        "created": moment(view.create_time),
        "started": moment(view.start_time),
        "finished": moment(view.finish_time),
        "error": _error(error),
        "cancel": _cancel(view),
        "artifacts": f"{view.artifact_count or ''}",
        "about": f"{view.target.type} {view.target.id}" if view.target else "",
        "batch": f"{view.batch_id}, item {view.batch_item}" if view.batch_id else "",
        "labels": ", ".join(f"{key}={value}" for key, value in sorted(view.labels.items())),
        "origin": f"{view.origin_job_id or ''}",
    }
    for name, value in told.items():
        if value:
            line(f"{name:<10} {value}", style=_STYLES.get(value) if name == "state" else None)


def jobs(views: Sequence[JobView]) -> None:
    """Print a table of jobs; with their owners where there are several."""
    owner = several_owners(views)
    rows = [
        (f"{view.job_id}", view.job_type, f"{view.state}", f"{view.progress} %", f"{view.attempt}",
         moment(view.create_time), *(view.owner for _ in owner), _error(view.error))
        for view in views
    ]  # fmt: skip
    table(("job", "type", "state", "progress", "attempt", "created", *owner, "error"), rows)


def several_owners(views: Sequence[JobView] | Sequence[BatchView]) -> tuple[str, ...]:
    """The head of a column of owners; empty where all have the same."""
    return ("owner",) if len({view.owner for view in views}) > 1 else ()


def attempts(views: Sequence[AttemptView]) -> None:
    rows = [
        (f"{view.number}", f"{view.outcome or 'running'}", view.executor_name, moment(view.start_time),
         moment(view.end_time), _error(view.error))
        for view in views
    ]  # fmt: skip
    table(("attempt", "outcome", "executor", "started", "ended", "error"), rows)


def artifacts(views: list[ArtifactView]) -> None:
    """Print a table of artifacts, which have their content with them."""
    rows = [(f"{view.ordinal}", view.type, view.artifact_id, excerpt(view.content)) for view in views]
    table(("ordinal", "artifact", "id", "content"), rows)


def excerpt(content: Any) -> str:
    """The first characters of an artifact's content: of its headings and its text, if it has such."""
    match content:
        case None:
            whole = ""
        case {"heading_path": [*headings], "text": str(text)}:
            whole = ": ".join(part for part in (" > ".join(map(str, headings)), text) if part)
        case {"text": str(text)}:
            whole = text
        case _:
            whole = json.dumps(content, ensure_ascii=False)
    line_ = " ".join(whole.split())
    return line_ if len(line_) <= _EXCERPT_CHARACTERS else f"{line_[: _EXCERPT_CHARACTERS - 1]}…"


def output(value: Any, *, succeeded: bool) -> None:
    """Print an output, or why there is none."""
    if value is not None:
        document(value)
    elif succeeded:
        line("output     not kept; see its artifacts")
    else:
        line("output     none, for it has not succeeded")


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows under their columns; cells are plain text, whatever they hold."""
    from job_api.command.tables import Styles, lines

    width = console().width if sys.stdout.isatty() else None
    for each in lines(columns, rows, Styles(head="bold", words=_STYLES), width=width):
        console().print(each, soft_wrap=True)


def _progress(view: JobView) -> str:
    note = f" {view.progress_message}" if view.progress_message else ""
    return f"{view.progress} %{note}" if view.attempt else ""


def _attempt(view: JobView) -> str:
    if not view.attempt:
        delayed = view.next_attempt_time is not None and view.next_attempt_time > view.create_time
        return f"not before {moment(view.next_attempt_time)}" if delayed else ""
    due = f", the next one at {moment(view.next_attempt_time)}" if view.next_attempt_time else ""
    return f"{view.attempt} ({view.failure_count} failed, {view.loss_count} lost){due}"


def _error(error: JobError | None) -> str:
    return f"{error.code}: {error.message}" if error else ""


def _cancel(view: JobView) -> str:
    if view.cancellation is None:
        return ""
    forced = ", forced" if view.cancellation.forced else ""
    return f"requested {moment(view.cancellation.request_time)}{forced}"


def state_style(state: str) -> str | None:
    return _STYLES.get(state)


def now() -> datetime:
    """When something was drawn, by this machine's clock; nothing is concluded from it."""
    return datetime.now(UTC)


def moment(time: datetime | None) -> str:
    return f"{time.astimezone():%Y-%m-%d %H:%M:%S}" if time else ""


def short_moment(time: datetime | None, now: datetime) -> str:
    """A time of today without its date."""
    if time is None or time.astimezone().date() != now.astimezone().date():
        return moment(time)
    return f"{time.astimezone():%H:%M:%S}"
