"""`baton batch cancel`, `retry`, `select` and `advance`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from job_api.command import batch_tables, completions, show
from job_api.command.batch_options import BatchArgument, batch_state_of
from job_api.command.exits import ending, invalid
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, Token, connect

if TYPE_CHECKING:
    from job_api.client import BatchId, BatchView, Client

Items = Annotated[
    list[int] | None,
    typer.Option("--item", metavar="N", min=1, max=2**31 - 1, help="This item; may be repeated."),
]


def cancel(
    batch_id: BatchArgument,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Cancel a batch: items that wait are skipped at once, those that run may finish."""
    with ending(), connect(address, token) as client:
        from job_api.client import BatchId

        view = client.cancel_batch(BatchId(batch_id))
        if not as_json and not view.settled:
            running = batch_tables.items_said(view.counters.running)
            show.line(
                f"{batch_id} skipped what waited; still running: {running}; baton batch watch {batch_id}"
            )
        else:
            _tell(view, as_json=as_json)


def retry(
    batch_id: BatchArgument,
    item: Items = None,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Try failed items again: all of them, or those named by --item."""
    with ending(), connect(address, token) as client:
        from job_api.client import BatchId

        retried = client.retry_batch_items(BatchId(batch_id), item or None)
        if as_json:
            show.document(retried.to_json())
        else:
            items = "as asked for before" if retried.replayed else batch_tables.items_said(retried.count)
            show.line(f"tried again: {items}; baton batch watch {batch_id}")


def select(
    batch_id: BatchArgument,
    *,
    item: Items = None,
    all_succeeded: Annotated[bool, typer.Option("--all", help="All items that succeeded.")] = False,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Pick succeeded items of a batch that has settled, for what comes next; it is SELECTED then."""
    if bool(item) is all_succeeded:
        raise invalid("name items by --item, or --all that succeeded")
    with ending(), connect(address, token) as client:
        from job_api.client import BatchId

        numbers = item or _succeeded(client, BatchId(batch_id))
        _tell(client.select_batch_items(BatchId(batch_id), numbers), as_json=as_json)


def advance(
    batch_id: BatchArgument,
    state: Annotated[
        str,
        typer.Argument(
            metavar="exported|stored",
            help="What was done with the selection.",
            autocompletion=completions.advances,
        ),
    ],
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Say that the selected items were exported, and then that the export was stored."""
    if state.lower() not in completions.ADVANCES:
        raise invalid(f"a batch advances to {' or '.join(completions.ADVANCES)}, not to {state!r}")
    with ending(), connect(address, token) as client:
        from job_api.client import BatchId

        _tell(client.advance_batch(BatchId(batch_id), batch_state_of(state)), as_json=as_json)


def _succeeded(client: Client, batch_id: BatchId) -> list[int]:
    from job_api.client import PAGE_SIZE_MAX, JobState

    found = client.batch_items(batch_id, states=[JobState.SUCCEEDED], page_size=PAGE_SIZE_MAX)
    numbers = [each.number for each in found]
    if not numbers:
        raise invalid(f"no item of batch {batch_id} has succeeded")
    return numbers


def _tell(view: BatchView, *, as_json: bool) -> None:
    if as_json:
        show.document(view.to_json())
    else:
        show.line(f"{view.batch_id} is {view.state}: {batch_tables.counted(view.counters)}")
