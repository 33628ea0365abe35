"""What a watched job looks like: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from job_api.command import show

if TYPE_CHECKING:
    from job_api.client import JobEvent, Piece, Progress

    What: TypeAlias = JobEvent | Progress | Piece


class Printer(Protocol):
    """Prints updates, as a context that finishes the last line at its end."""

    def __enter__(self) -> Printer: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def take(self, what: What) -> None: ...


def sentence(event: JobEvent) -> str:
    """Say an event in one line, with its time on this machine's clock face."""
    words = event.kind.value.replace("_", " ")
    parts = [
        f"{event.event_time.astimezone():%H:%M:%S}",
        f"{event.outcome.value.replace('_', ' ')}: {words}" if event.outcome else words,
        f"attempt {event.attempt}" if event.attempt else "",
        f"due {event.next_attempt_time.astimezone():%H:%M:%S}" if event.next_attempt_time else "",
        f"{event.error.code}: {event.error.message}" if event.error else "",
        "forced" if event.forced else "",
    ]
    return "  ".join(part for part in parts if part)


class _Lines:
    """Puts pieces together to whole lines, which do not tear when others print between them."""

    def __init__(self) -> None:
        self._rest = ""

    def add(self, text: str) -> None:
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            show.line(line)

    def finish(self) -> None:
        if self._rest:
            show.line(self._rest)
        self._rest = ""


class PlainPrinter:
    """A line for each thing that happens."""

    def __init__(self) -> None:
        self._lines = _Lines()

    def __enter__(self) -> PlainPrinter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.finish()

    def take(self, what: What) -> None:
        from job_api.client import JobEvent, Progress

        match what:
            case JobEvent():
                self._lines.finish()
                show.line(sentence(what))
            case Progress():
                self._lines.finish()
                self._progress(what)
            case _:
                self._lines.add(what.text)

    def _progress(self, what: Progress) -> None:
        show.line(f"{what.progress:>3} %  {what.progress_message}".rstrip())


class LivePrinter(PlainPrinter):
    """A bar below the lines, which shows the progress of the attempt that runs."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        super().__init__()
        self._bars = Bars(
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=show.console(),
        )
        self._bar = self._bars.add_task("", total=100)

    def __enter__(self) -> LivePrinter:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._bars.stop()

    def _progress(self, what: Progress) -> None:
        self._bars.update(self._bar, completed=what.progress, description=what.progress_message)
