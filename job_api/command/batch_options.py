"""Arguments and options of the commands about batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from job_api.command.exits import invalid
from job_api.command.listing import state_among

if TYPE_CHECKING:
    from job_api.client import BatchState, Target

BatchArgument = Annotated[UUID, typer.Argument(metavar="ID", help="The batch.")]


def target_of(text: str) -> Target | None:
    """Read TYPE:ID; ends the command if it is not of that form."""
    from job_api.client import Target

    if not text:
        return None
    kind, colon, name = text.partition(":")
    if not kind or not colon:
        raise invalid(f"a target is TYPE:ID, such as course:7, not {text!r}")
    return Target(kind, name)


def batch_state_of(text: str) -> BatchState:
    """Read a state in whatever case, also with hyphens; ends the command if there is none of that name."""
    from job_api.client import BatchState

    return state_among(BatchState, text)
