"""`baton cancel`."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from job_api.command import show
from job_api.command.exits import ending
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, Token, connect


def cancel(
    job_id: Annotated[UUID, typer.Argument(metavar="ID", help="The job.")],
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Cancel a job: at once while it waits, else by asking its executor to stop."""
    with ending(), connect(address, token) as client:
        from job_api.client import JobId

        job = client.cancel(JobId(job_id))
        if as_json:
            show.document(job.to_json())
        elif job.ended:
            show.line(f"{job.job_id} is {job.state}")
        else:
            show.line(f"{job.job_id} is asked to stop; baton watch {job.job_id} tells when it has")
