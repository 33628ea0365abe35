"""`baton watch`: following one job, also one that was just submitted, or all that fit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from job_api.command import completions, show
from job_api.command.exits import EXIT_JOB_FAILED, ending, invalid, say
from job_api.command.live_lines import change_line
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJsonLines, Token, connect
from job_api.command.progress import LivePrinter, PlainPrinter, Printer
from job_api.command.reading import state_of
from job_api.command.selecting import (
    NOT_BOTH,
    JobArgument,
    OfOwner,
    OfQueue,
    OfType,
    WithLabel,
    WithText,
    which_jobs,
)
from shared.runtime.processes import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from job_api.client import Client, JobFilter, JobId

InState = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        help="All jobs that come into this state, or leave it.",
        autocompletion=completions.job_states,
    ),
]


def watch(
    job_id: JobArgument = None,
    *,
    after: Annotated[int, typer.Option(min=0, help="Start after the event of this number.")] = 0,
    state: InState = None,
    job_type: OfType = "",
    queue: OfQueue = "",
    label: WithLabel = None,
    owner: OfOwner = "",
    text: WithText = "",
    as_json: AsJsonLines = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Follow a job to its end: events, progress and streamed output.

    Without an ID: show jobs that fit as they change, from now on, until Ctrl-C.
    """
    states = [state_of(each) for each in state or ()]
    which = which_jobs(states=states, job_type=job_type, queue=queue, label=label, owner=owner, text=text)
    if job_id is not None and which:
        raise invalid(NOT_BOTH)
    if job_id is None and after:
        raise invalid("--after is for one job, named by its id")
    with ending(), connect(address, token) as client:
        from job_api.client import JobId

        if job_id is not None:
            follow(client, JobId(job_id), after=after, as_json=as_json)
        else:
            _show_changes(client, which, as_json=as_json)


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


def _show_changes(client: Client, which: JobFilter, *, as_json: bool) -> None:
    """Print jobs as they change, without end; where some may have been missed, say so."""
    from job_api.client import JobChange

    begun = False
    for update in client.watch_jobs(**which):
        if isinstance(update, JobChange):
            if as_json:
                show.json_line(update.to_json())
            else:
                change_line(update)
        elif begun:
            say("the view was interrupted; what changed meanwhile is not shown")
        else:
            begun = True
            say("watching; jobs are shown as they change")


def _printer() -> Printer:
    return LivePrinter() if sys.stdout.isatty() else PlainPrinter()
