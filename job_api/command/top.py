"""`baton top`: how the engine is doing, in a terminal, again and again."""

from __future__ import annotations

import sys
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated

import typer

from job_api.command import show
from job_api.command.exits import ending
from job_api.command.options import DEFAULT_ADDRESS, Address, Token, connect
from job_api.command.top_snapshot import CALLS, look

if TYPE_CHECKING:
    from job_api.client import Client

_FRAME_LINES = 20
"""More than a board's lines beside its rows."""

Interval = Annotated[float, typer.Option(min=0.5, max=3600, help="Seconds from one look to the next.")]
Once = Annotated[bool, typer.Option("--once", help="Look once; so it is also where there is no terminal.")]
OneAsJson = Annotated[bool, typer.Option("--json", help="Look once, and write one JSON document.")]


def top(
    *,
    interval: Interval = 2.0,
    once: Once = False,
    as_json: OneAsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Show queues, rates, executors and recent failures, again and again until Ctrl-C; for admins."""
    with ending(), ThreadPoolExecutor(CALLS) as threads, connect(address, token) as client:
        if as_json:
            show.document(look(client, threads).to_json())
        elif once or not sys.stdout.isatty():
            _show_once(client, threads)
        else:
            _go_on(client, threads, interval)


def _show_once(client: Client, threads: Executor) -> None:
    from job_api.command.top_board import Board

    snapshot = look(client, threads)
    rows = len(snapshot.queues) + len(snapshot.executors) + len(snapshot.failures)
    board = Board(snapshot).within(rows + _FRAME_LINES)
    if sys.stdout.isatty():
        show.console().print(board)
        return
    for line in show.console().render_lines(board, pad=False):
        show.line("".join(segment.text for segment in line).rstrip())


def _go_on(client: Client, threads: Executor, interval: float) -> None:
    """Look and show until Ctrl-C; what is shown stays while the service can't be reached."""
    from rich.live import Live

    from job_api.client import CallFailed, errors
    from job_api.command.top_board import Board

    try:
        board = Board(look(client, threads))
        with Live(board, console=show.console(), screen=True, redirect_stderr=False) as live:
            while True:
                time.sleep(interval)
                try:
                    board = Board(look(client, threads))
                except (CallFailed, errors.PlatformUnavailable) as error:
                    board = Board(board.snapshot, note=f"no news: {error.message}")
                live.update(board, refresh=True)
    except KeyboardInterrupt:
        raise typer.Exit from None
