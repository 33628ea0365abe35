"""`baton explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from job_api.command import show
from job_api.command.exits import ending
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, Token, connect

if TYPE_CHECKING:
    from job_api.client import WaitReasonView


def explain(
    job_id: Annotated[UUID, typer.Argument(metavar="ID", help="The job.")],
    *,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Say why a job is not running; what must go first stands first."""
    with ending(), connect(address, token) as client:
        from job_api.client import JobId

        reasons = client.explain(JobId(job_id))
        if as_json:
            show.document([each.to_json() for each in reasons])
        else:
            _print(reasons)


def _print(reasons: Sequence[WaitReasonView]) -> None:
    for each in reasons:
        show.line(f"{each.cause:<16} {each.sentence}")
        if each.holding_job_ids:
            show.line(f"{'':<16} held by {', '.join(map(str, each.holding_job_ids))}")
