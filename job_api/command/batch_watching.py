"""`baton batch watch`, and following a batch that was just created."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from job_api.command import show
from job_api.command.batch_board import LiveBatchPrinter, PlainBatchPrinter
from job_api.command.batch_options import BatchArgument
from job_api.command.batch_tables import items_said
from job_api.command.exits import EXIT_JOB_FAILED, ending, say
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJsonLines, Token, connect
from shared.runtime.processes import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from job_api.client import BatchId, Client

_WITHOUT_FAULT = {"AWAITING_REVIEW", "SELECTED", "EXPORTED", "STORED"}


def watch(
    batch_id: BatchArgument,
    after: Annotated[int, typer.Option(min=0, help="Start after the event of this number.")] = 0,
    as_json: AsJsonLines = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Follow a batch until it has settled: its counters, and items that fail as they fail."""
    with ending(), connect(address, token) as client:
        from job_api.client import BatchId

        follow(client, BatchId(batch_id), after=after, as_json=as_json)


def follow(client: Client, batch_id: BatchId, *, after: int = 0, as_json: bool) -> None:
    """Print what happens to a batch, and exit by how it settled; Ctrl-C leaves it running, and says so."""
    try:
        if as_json:
            for update in client.watch_batch(batch_id, after=after):
                show.json_line(update.to_json())
        else:
            with _printer(client, batch_id) as printer:
                for update in client.watch_batch(batch_id, after=after):
                    printer.take(update.what)
    except KeyboardInterrupt:
        say(
            f"no longer watching; the batch goes on: baton batch watch {batch_id},"
            f" or baton batch cancel {batch_id}"
        )
        raise typer.Exit(EXIT_INTERRUPTED) from None
    batch = client.batch(batch_id)
    if not as_json and batch.counters.failed:
        failed = items_said(batch.counters.failed)
        say(f"{failed} failed: baton batch get {batch_id}, baton batch retry {batch_id}")
    if batch.state.name not in _WITHOUT_FAULT:
        raise typer.Exit(EXIT_JOB_FAILED)


def _printer(client: Client, batch_id: BatchId) -> PlainBatchPrinter:
    if sys.stdout.isatty():
        return LiveBatchPrinter(client.batch(batch_id).size)
    return PlainBatchPrinter()
