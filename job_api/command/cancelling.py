"""`baton cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from job_api.command import completions, selecting, show
from job_api.command.exits import ending, invalid
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, Token, connect
from job_api.command.reading import state_of
from job_api.command.selecting import JobArgument, OfOwner, OfQueue, OfType, WithLabel, WithText, Yes

if TYPE_CHECKING:
    from job_api.client import JobState


def cancel(
    job_id: JobArgument = None,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            help="All jobs in this state, QUEUED or RUNNING.", autocompletion=completions.open_states
        ),
    ] = None,
    job_type: OfType = "",
    queue: OfQueue = "",
    label: WithLabel = None,
    owner: OfOwner = "",
    text: WithText = "",
    yes: Yes = False,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Cancel a job: at once while it waits, else by asking its executor to stop.

    Or all jobs that fit everything that the options say.
    """
    states = [_open_state_of(each) for each in state or ()]
    which = selecting.which_jobs(
        states=states, job_type=job_type, queue=queue, label=label, owner=owner, text=text
    )
    selecting.require_one_way(job_id, which)
    with ending(), connect(address, token) as client:
        if job_id is None:
            selecting.change(
                lambda dry_run: client.cancel_jobs(dry_run=dry_run, **which),
                done="cancelled or asked to stop",
                yes=yes,
                as_json=as_json,
            )
            return
        from job_api.client import JobId

        job = client.cancel(JobId(job_id))
        if as_json:
            show.document(job.to_json())
        elif job.ended:
            show.line(f"{job.job_id} is {job.state}")
        else:
            show.line(f"{job.job_id} is asked to stop; baton watch {job.job_id} tells when it has")


def _open_state_of(text: str) -> JobState:
    """Read a state; ends the command if there is nothing to cancel about jobs in it."""
    from job_api.client import TERMINAL_STATES

    state = state_of(text)
    if state in TERMINAL_STATES:
        raise invalid(f"jobs that are {state} have ended; those that are QUEUED or RUNNING can be cancelled")
    return state
