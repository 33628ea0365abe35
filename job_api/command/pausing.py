"""`baton queues`: how queues are doing, and pausing them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from job_api.command import completions, show
from job_api.command.exits import ending, invalid
from job_api.command.operating import print_queues
from job_api.command.options import DEFAULT_ADDRESS, EXIT_CODES, Address, AsJson, Token, connect

Queue = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="A queue.", show_default=False, autocompletion=completions.queues),
]
JobType = Annotated[
    str | None,
    typer.Option(
        "--type", metavar="TYPE", help="A job type instead of a queue.", autocompletion=completions.job_types
    ),
]

queues = typer.Typer(
    help="List queues: what waits and runs in each, and how many executors serve it. Pause and resume them.",
    invoke_without_command=True,
)


@queues.callback(epilog=EXIT_CODES)
def list_queues(
    context: typer.Context,
    *,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """List queues: what waits and runs in each, how many executors serve it, and who paused it."""
    if context.invoked_subcommand is None:
        print_queues(as_json=as_json, address=address, token=token)


@queues.command("pause", epilog=EXIT_CODES)
def pause(
    queue: Queue = None,
    *,
    job_type: JobType = None,
    note: Annotated[str, typer.Option(help="Why; for people, at most 200 characters.")] = "",
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Let nothing of a queue or job type start any more; what runs goes on. The first pause stays."""
    named = _named(queue, job_type)
    with ending(), connect(address, token) as client:
        view = client.pause(queue=queue, job_type=job_type, note=note)
        if as_json:
            show.document(view.to_json())
        else:
            said = f": {view.note}" if view.note else ""
            show.line(f"{named} is paused by {view.subject} since {show.moment(view.pause_time)}{said}")


@queues.command("resume", epilog=EXIT_CODES)
def resume(
    queue: Queue = None,
    *,
    job_type: JobType = None,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Let what waits in a queue or of a job type start again."""
    named = _named(queue, job_type)
    with ending(), connect(address, token) as client:
        span = client.resume(queue=queue, job_type=job_type)
        if as_json:
            show.document({"pausedTime": f"{span.total_seconds():g}s"})
        elif span:
            seconds = timedelta(seconds=int(span.total_seconds()))
            show.line(f"{named} was paused for {seconds} and goes on")
        else:
            show.line(f"{named} was not paused")


def _named(queue: str | None, job_type: str | None) -> str:
    if (queue is None) is (job_type is None):
        raise invalid("name a queue, or a job type with --type")
    return f"the queue {queue}" if job_type is None else f"the job type {job_type}"
