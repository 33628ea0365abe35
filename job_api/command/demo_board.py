"""Shows several jobs at once: a bar for each in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from job_api.command import show
from job_api.command.progress import sentence

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from job_api.client import JobView
    from job_api.command.progress import What


class Board:
    """Takes updates of named jobs, from any thread."""

    def __init__(self) -> None:
        self._bars = _bars() if sys.stdout.isatty() else None
        self._tasks: dict[str, Any] = {}

    def shown(self) -> AbstractContextManager[object]:
        """A block during which the bars stand in the terminal."""
        return self._bars if self._bars is not None else nullcontext()

    def add(self, name: str) -> None:
        if self._bars is not None:
            self._tasks[name] = self._bars.add_task(name, total=100, note="queued")

    def take(self, name: str, what: What) -> None:
        from job_api.client import JobEvent, Progress

        match what:
            case JobEvent():
                self._event(name, what)
            case Progress():
                self._progress(name, what)
            case _:
                pass

    def end(self, name: str, job: JobView) -> None:
        if self._bars is not None:
            completed = 100 if job.state.name == "SUCCEEDED" else job.progress
            self._bars.update(self._tasks[name], completed=completed, note=job.state.lower())

    def _event(self, name: str, event: Any) -> None:
        if self._bars is not None:
            self._bars.update(self._tasks[name], note=event.kind.value.replace("_", " "))
        else:
            show.line(f"  {name}: {sentence(event)}")

    def _progress(self, name: str, told: Any) -> None:
        if self._bars is not None:
            self._bars.update(self._tasks[name], completed=told.progress, note=told.progress_message)
        else:
            show.line(f"  {name}: {told.progress:>3} %  {told.progress_message}".rstrip())


def _bars() -> Bars:
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("  {task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %", markup=False),
        TextColumn("{task.fields[note]}", markup=False),
        console=show.console(),
    )
