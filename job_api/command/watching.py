"""`baton watch`, and following a job that was just submitted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from job_api.command import show
from job_api.command.exits import EXIT_JOB_FAILED, ending, say
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, Token, connect
from job_api.command.progress import LivePrinter, PlainPrinter, Printer
from shared.runtime.processes import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from job_api.client import Client, JobId


def watch(
    job_id: Annotated[UUID, typer.Argument(metavar="ID", help="The job.")],
    after: Annotated[int, typer.Option(min=0, help="Start after the event of this number.")] = 0,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Follow a job to its end: events, progress and streamed output."""
    with ending(), connect(address, token) as client:
        from job_api.client import JobId

        follow(client, JobId(job_id), after=after, as_json=as_json)


def follow(client: Client, job_id: JobId, *, after: int = 0, as_json: bool) -> None:
    """Print what happens to a job, and exit by how it ended; Ctrl-C leaves it running, and says so."""
    try:
        if as_json:
            for update in client.watch(job_id, after=after):
                show.json_line(update.to_json())
        else:
            with _printer() as printer:
                for update in client.watch(job_id, after=after):
                    printer.take(update.what)
    except KeyboardInterrupt:
        say(f"no longer watching; the job goes on: baton watch {job_id}, or baton cancel {job_id}")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    job = client.get(job_id)
    if job.state.name != "SUCCEEDED":
        raise typer.Exit(EXIT_JOB_FAILED)


def _printer() -> Printer:
    return LivePrinter() if sys.stdout.isatty() else PlainPrinter()
