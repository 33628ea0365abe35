"""`baton batch create` and `baton batch estimate`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from job_api.command import batch_inputs, batch_tables, batch_watching, completions, show
from job_api.command.batch_options import target_of
from job_api.command.exits import ending
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, AsJsonLines, Token, connect
from job_api.command.reading import labels_of

JobTypeArgument = Annotated[
    str,
    typer.Argument(metavar="TYPE", help="The job type of every item.", autocompletion=completions.job_types),
]


def estimate(
    job_type: JobTypeArgument,
    size: Annotated[int, typer.Argument(metavar="SIZE", min=1, help="The number of items.")],
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Say what a batch would cost and how long it would take, without creating it."""
    with ending(), connect(address, token) as client:
        view = client.estimate_batch(job_type, size)
        if as_json:
            show.document(view.to_json())
        else:
            batch_tables.estimate(view)


def create(
    job_type: JobTypeArgument,
    inputs: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="The items' inputs, in a file or from stdin: one JSON object a line, or one JSON array.",
        ),
    ],
    *,
    title: Annotated[str, typer.Option(help="A name for people.")] = "",
    target: Annotated[str, typer.Option(metavar="TYPE:ID", help="What the batch is about.")] = "",
    label: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated.")] = None,
    priority: Annotated[int | None, typer.Option(min=0, max=100, help="0 first to 100 last.")] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Idempotency key, 8 to 128 visible ASCII characters: the same key is the same batch."
        ),
    ] = None,
    watch: Annotated[bool, typer.Option(help="Follow the batch until it has settled.")] = False,
    as_json: AsJsonLines = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Create a batch, all of its items or none, and say its id."""
    read = batch_inputs.read(inputs)
    about, labels = target_of(target), labels_of(label or ())
    with ending(), connect(address, token) as client, _in_their_places(read):
        batch = client.create_batch(
            job_type,
            read.documents,
            idempotency_key=key,
            title=title,
            target=about,
            priority=priority,
            labels=labels,
        )
        if not watch:
            if as_json:
                show.document(batch.to_json())
            else:
                show.line(f"{batch.batch_id}")
            return
        if not as_json:
            created = "was created before" if batch.replayed else "created"
            show.line(f"{batch.batch_id} {created}, {batch_tables.items_said(batch.size)}")
        batch_watching.follow(client, batch.batch_id, as_json=as_json)


@contextmanager
def _in_their_places(inputs: batch_inputs.Inputs) -> Iterator[None]:
    """Name inputs that the service refuses by where they were found."""
    from job_api.client import BatonError

    try:
        yield
    except BatonError as error:
        error.message = inputs.in_their_places(error.message)
        raise
