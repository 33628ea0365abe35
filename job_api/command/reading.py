"""`baton get` and `baton list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from job_api.command import completions, history, show
from job_api.command.exits import ending, invalid
from job_api.command.listing import Limit, page_size, print_first, state_among
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, Token, connect

if TYPE_CHECKING:
    from job_api.client import Client, JobFilter, JobId, JobState


def get_job(
    job_id: Annotated[UUID, typer.Argument(metavar="ID", help="The job.")],
    *,
    with_attempts: Annotated[
        bool, typer.Option("--attempts", help="All its attempts, beyond the newest 100 too.")
    ] = False,
    with_artifacts: Annotated[
        bool, typer.Option("--artifacts", help="Its artifacts too; with their content in JSON.")
    ] = False,
    with_output: Annotated[bool, typer.Option("--output", help="Its output too.")] = False,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Show a job."""
    with ending(), connect(address, token) as client:
        from job_api.client import JobId

        parts = _Parts(with_attempts, with_artifacts, with_output)
        if as_json:
            show.document(parts.as_json(client, JobId(job_id)))
        else:
            parts.print(client, JobId(job_id))


class _Parts:
    """What is to be shown of a job besides itself."""

    def __init__(self, attempts: bool, artifacts: bool, output: bool) -> None:
        self._attempts = attempts
        self._artifacts = artifacts
        self._output = output

    def as_json(self, client: Client, job_id: JobId) -> dict[str, Any]:
        told = client.get(job_id).to_json()
        if self._attempts:
            told["attempts"] = [each.to_json() for each in client.attempts(job_id)]
        if self._artifacts:
            told["artifacts"] = [each.to_json() for each in client.artifacts(job_id, content=True)]
        if self._output:
            told["output"] = client.output(job_id)
        return told

    def print(self, client: Client, job_id: JobId) -> None:
        job = client.get(job_id)
        show.job(job)
        history.times(job)
        history.attempts(list(client.attempts(job_id)) if self._attempts else job.attempts)
        if self._artifacts:
            show.line("")
            show.artifacts(list(client.artifacts(job_id, content=True)))
        if self._output:
            show.line("")
            show.output(client.output(job_id), succeeded=job.state.name == "SUCCEEDED")


def list_jobs(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only jobs in this state; may be repeated.", autocompletion=completions.job_states),
    ] = None,
    job_type: Annotated[
        str, typer.Option("--type", help="Only jobs of this type.", autocompletion=completions.job_types)
    ] = "",
    queue: Annotated[
        str, typer.Option(help="Only jobs of this queue.", autocompletion=completions.queues)
    ] = "",
    label: Annotated[
        list[str] | None, typer.Option(help="Only jobs with this label, KEY=VALUE; may be repeated.")
    ] = None,
    owner: Annotated[str, typer.Option(help="Only jobs of this owner; for admins.")] = "",
    text: Annotated[
        str, typer.Option(help="Only jobs whose target's id, error code or message holds this.")
    ] = "",
    batch: Annotated[UUID | None, typer.Option(help="Only jobs of this batch, earlier ones too.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """List jobs, newest first."""
    from job_api.client import BatchId

    states = [state_of(each) for each in state or ()]
    with ending(), connect(address, token) as client:
        which: JobFilter = {
            "states": states,
            "job_type": job_type,
            "queue": queue,
            "labels": labels_of(label or ()),
            "owner": owner,
            "text": text,
        }
        if batch is not None:
            which["batch_id"] = BatchId(batch)
        found = client.list(page_size=page_size(limit), **which)
        print_first(found, limit, show.jobs, things="jobs", as_json=as_json)


def labels_of(texts: list[str] | tuple[()]) -> dict[str, str]:
    """Read KEY=VALUE; ends the command if one is not of that form, or a key has two values."""
    labels = dict[str, str]()
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise invalid(f"a label is KEY=VALUE, not {text!r}")
        if labels.setdefault(key, value) != value:
            raise invalid(f"the label {key!r} has two values: {labels[key]!r} and {value!r}")
    return labels


def state_of(text: str) -> JobState:
    """Read a state in whatever case; ends the command if there is none of that name."""
    from job_api.client import JobState

    return state_among(JobState, text)
