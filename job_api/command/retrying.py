"""`baton retry`."""

from __future__ import annotations

from typing import Annotated

import typer

from job_api.command import selecting, show
from job_api.command.exits import ending
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, Token, connect
from job_api.command.selecting import JobArgument, OfOwner, OfQueue, OfType, WithLabel, WithText, Yes


def retry(
    job_id: JobArgument = None,
    *,
    failed: Annotated[bool, typer.Option("--failed", help="All jobs that FAILED.")] = False,
    cancelled: Annotated[bool, typer.Option("--cancelled", help="All jobs that were CANCELLED.")] = False,
    job_type: OfType = "",
    queue: OfQueue = "",
    label: WithLabel = None,
    owner: OfOwner = "",
    text: WithText = "",
    key: Annotated[
        str | None,
        typer.Option(help="Idempotency key of a retry of one job: the same key is the same new job."),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Run a job that FAILED or was CANCELLED again: a new job, which names the old one as its origin.

    Or all such jobs that fit everything that the options say, and were not run again yet.
    """
    from job_api.client import JobState

    states = [state for state, asked in ((JobState.FAILED, failed), (JobState.CANCELLED, cancelled)) if asked]
    which = selecting.which_jobs(
        states=states, job_type=job_type, queue=queue, label=label, owner=owner, text=text
    )
    selecting.require_one_way(job_id, which)
    with ending(), connect(address, token) as client:
        if job_id is None:
            selecting.change(
                lambda dry_run: client.retry_jobs(dry_run=dry_run, **which),
                done="run again",
                yes=yes,
                as_json=as_json,
            )
            return
        from job_api.client import JobId

        job = client.retry(JobId(job_id), idempotency_key=key)
        if as_json:
            show.document(job.to_json())
        else:
            show.line(f"{job.job_id}")
