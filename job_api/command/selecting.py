"""Options that say which jobs are meant, for commands about one job or about all that fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from job_api.command import completions, show
from job_api.command.exits import invalid
from job_api.command.reading import labels_of

if TYPE_CHECKING:
    from job_api.client import JobFilter, JobState

JobArgument = Annotated[UUID | None, typer.Argument(metavar="[ID]", help="The job.")]
OfType = Annotated[
    str, typer.Option("--type", help="All jobs of this type.", autocompletion=completions.job_types)
]
OfQueue = Annotated[
    str, typer.Option("--queue", help="All jobs of this queue.", autocompletion=completions.queues)
]
WithLabel = Annotated[
    list[str] | None, typer.Option("--label", help="All jobs with this label, KEY=VALUE; may be repeated.")
]
OfOwner = Annotated[str, typer.Option("--owner", help="All jobs of this owner; for admins.")]
WithText = Annotated[
    str, typer.Option("--text", help="All jobs whose target's id, error code or message holds this.")
]
ONE_WAY = "name a job by its id, or say by options such as --type which jobs are meant"
NOT_BOTH = f"{ONE_WAY}: not both"

Yes = Annotated[bool, typer.Option("--yes", help="Do it; without this, jobs that fit are only counted.")]


def which_jobs(
    *, states: list[JobState], job_type: str, queue: str, label: list[str] | None, owner: str, text: str
) -> JobFilter:
    """Say which jobs are meant; empty if no option says so."""
    from job_api.client import JobFilter

    which = JobFilter()
    if states:
        which["states"] = states
    if job_type:
        which["job_type"] = job_type
    if queue:
        which["queue"] = queue
    if label:
        which["labels"] = labels_of(label)
    if owner:
        which["owner"] = owner
    if text:
        which["text"] = text
    return which


def require_one_way(job_id: UUID | None, which: JobFilter) -> None:
    """End the command unless it is either about one job, or about those that fit."""
    if (job_id is None) is not bool(which):
        raise invalid(ONE_WAY if job_id is None else NOT_BOTH)


def change(ask: Callable[[bool], int], *, done: str, yes: bool, as_json: bool) -> None:
    """Do it to all jobs that fit, or count them, and say how many.

    Args:
        ask: Does it; only counts for True.
        done: What is done to a job, such as `cancelled`.
    """
    count = ask(not yes)
    if as_json:
        show.document({"count": count, "dryRun": not yes})
        return
    jobs = "1 job" if count == 1 else f"{count} jobs"
    if yes:
        show.line(f"{jobs} {done}")
    else:
        show.line(f"{jobs} would be {done}" + ("; --yes does it" if count else ""))
