"""`baton demo`: the main job from end to end, on a stack of its own, in well under a minute."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from job_api.command import show
from job_api.command.demo_board import Board
from job_api.command.demo_stack import StackFailed, running_stack
from job_api.command.exits import say
from shared.runtime.processes import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from job_api.client import Client, JobView

EXIT_UNEXPECTED = 1

_RETRIED = {"items": 4, "duration_seconds": 0.8, "fail_attempts": [1], "fail_after_items": 2}
_CANCELLED = {"items": 300, "duration_seconds": 60}
"""Far longer than the demo, so that it ends by its cancel or not at all."""

_JOBS_BESIDES = 2
"""The job that is retried and the one that is cancelled."""

_PROJECT = Path(__file__).resolve().parents[2]


class Unexpected(Exception):
    """Something went another way than the demo promises; the message is a sentence."""


def demo(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            exists=True, dir_okay=False, help="Documents: text, Markdown, HTML, PDF. Default: the project's."
        ),
    ] = None,
) -> None:
    """Start everything, import documents, retry and cancel a job, show the numbers, stop everything.

    Exits with 1 if a document can't be imported or anything else is not as it should be.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stop from outside cleans up too
    try:
        documents = files or _own_documents()
        began = time.monotonic()
        show.line("Starting Postgres, Valkey, both services and an executor …", style="bold")
        with running_stack() as address:
            show.line(f"Ready in {time.monotonic() - began:.1f} s; JobControl listens on {address}.")
            faults = _shown(address, documents)
        show.line(f"Everything is stopped, after {time.monotonic() - began:.1f} s.", style="bold")
    except (StackFailed, Unexpected) as error:
        say(str(error))
        raise typer.Exit(EXIT_UNEXPECTED) from None
    except KeyboardInterrupt:
        say("interrupted; everything is stopped")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if faults:
        say(f"{faults} of {len(documents)} documents could not be imported")
        raise typer.Exit(EXIT_UNEXPECTED)


def _shown(address: str, documents: Sequence[Path]) -> int:
    """Show all parts; return how many documents could not be imported."""
    from job_api.client import BatonError, CallFailed, Client
    from job_api.command.demo_documents import import_all, show_imported

    try:
        with Client(address) as client:
            show.line(f"\nImporting {len(documents)} documents", style="bold")
            imported = import_all(client, documents)
            show.line("\nWhat was found", style="bold")
            for document in imported:
                show_imported(document)
            show.line("\nA job whose first attempt fails", style="bold")
            _retry(client)
            show.line("\nA job that is cancelled while it runs", style="bold")
            _cancel(client)
            show.line("\nNumbers", style="bold")
            _numbers(client, expected=sum(not each.refused for each in imported) + _JOBS_BESIDES)
    except (BatonError, CallFailed) as error:
        raise Unexpected(str(error)) from error
    return sum(bool(document.fault) for document in imported)


def _retry(client: Client) -> None:
    job = _followed(client, "retried", client.create_job("synthetic", _RETRIED), cancel=False)
    if job.state.name != "SUCCEEDED" or job.attempt != 2:  # noqa: PLR2004 - the second one succeeds
        raise Unexpected(f"the job to retry is {job.state} after {job.attempt} attempts")


def _cancel(client: Client) -> None:
    job = _followed(client, "cancelled", client.create_job("synthetic", _CANCELLED), cancel=True)
    if job.state.name != "CANCELLED":
        raise Unexpected(f"the job to cancel is {job.state}")


def _followed(client: Client, name: str, job: JobView, *, cancel: bool) -> JobView:
    """Show a job to its end, and cancel it once an attempt runs, if that is wanted."""
    from job_api.client import JobEvent, JobEventKind

    board = Board()
    with board.shown():
        board.add(name)
        for update in client.watch(job.job_id):
            board.take(name, update.what)
            started = isinstance(update.what, JobEvent) and update.what.kind is JobEventKind.STARTED
            if cancel and started:
                client.cancel(job.job_id)
        ended = client.get(job.job_id)
        board.end(name, ended)
    return ended


def _numbers(client: Client, *, expected: int) -> None:
    """Count over gRPC what was done, and check that nothing is missing."""
    jobs = list(client.list())
    if len(jobs) != expected or not all(job.ended for job in jobs):
        raise Unexpected(f"{len(jobs)} jobs are there, where {expected} should have ended")
    attempts = sum(len(list(client.attempts(job.job_id))) for job in jobs)
    states = Counter(job.state.lower() for job in jobs)
    waits = [(job.start_time - job.create_time).total_seconds() for job in jobs if job.start_time]
    show.line(f"jobs       {len(jobs)} ({', '.join(f'{n} {state}' for state, n in states.most_common())})")
    show.line(f"attempts   {attempts}")
    show.line(f"artifacts  {sum(job.artifact_count for job in jobs)}")
    show.line(f"from create to start, p50: {median(waits) * 1000:.0f} ms")


def _own_documents() -> list[Path]:
    """The project's own documents, where the project is a checkout."""
    found = [_PROJECT / "README.md", *sorted((_PROJECT / "docs").glob("*.md")), _PROJECT / "CHANGELOG.md"]
    documents = [path for path in found if path.is_file()]
    if not documents:
        raise Unexpected("there are no documents of the project here: name some files")
    return documents
