"""`baton batch get`, `list` and `items`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from job_api.command import batch_tables, completions, show
from job_api.command.batch_options import BatchArgument, batch_state_of, target_of
from job_api.command.exits import ending
from job_api.command.listing import Limit, page_size, print_first
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, Token, connect
from job_api.command.reading import state_of

if TYPE_CHECKING:
    from job_api.client import BatchFilter


def get_batch(
    batch_id: BatchArgument,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Show a batch: its state, how many items are where, and which failed, and why."""
    with ending(), connect(address, token) as client:
        from job_api.client import BatchId

        view = client.batch(BatchId(batch_id))
        if as_json:
            show.document(view.to_json())
        else:
            batch_tables.batch(view)


def list_batches(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            help="Only batches in this state; may be repeated.",
            autocompletion=completions.batch_states,
        ),
    ] = None,
    job_type: Annotated[
        str,
        typer.Option("--type", help="Only batches of this job type.", autocompletion=completions.job_types),
    ] = "",
    target: Annotated[
        str, typer.Option(metavar="TYPE:ID", help="Only batches about this; TYPE: for all of a type.")
    ] = "",
    owner: Annotated[str, typer.Option(help="Only batches of this owner; for admins.")] = "",
    text: Annotated[str, typer.Option(help="Only batches whose title holds this.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """List batches, newest first."""
    which: BatchFilter = {
        "states": [batch_state_of(each) for each in state or ()],
        "job_type": job_type,
        "target": target_of(target),
        "owner": owner,
        "text": text,
    }
    with ending(), connect(address, token) as client:
        found = client.batches(page_size=page_size(limit), **which)
        print_first(found, limit, batch_tables.batches, things="batches", as_json=as_json)


def list_items(
    batch_id: BatchArgument,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            help="Only items whose newest job is in this state; may be repeated.",
            autocompletion=completions.job_states,
        ),
    ] = None,
    limit: Limit = 1_000,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """List a batch's items by number, each with its newest job."""
    states = [state_of(each) for each in state or ()]
    with ending(), connect(address, token) as client:
        from job_api.client import BatchId

        found = client.batch_items(BatchId(batch_id), states=states, page_size=page_size(limit))
        print_first(found, limit, batch_tables.items, things="items", as_json=as_json)
