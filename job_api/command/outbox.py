"""`baton outbox`: messages that leave the database, and those that could not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from job_api.command import completions, operator_tables, show
from job_api.command.exits import ending, invalid, say
from job_api.command.listing import Limit, page_size, print_first, state_among
from job_api.command.options import DEFAULT_ADDRESS, EXIT_CODES, Address, AsJson, Token, connect

if TYPE_CHECKING:
    from job_api.client import Client

_NUMBER_MAX = 2**63 - 1

outbox = typer.Typer(
    help="List messages that could not be delivered, and send them again.", no_args_is_help=True
)


@outbox.command("list", epilog=EXIT_CODES)
def list_messages(
    *,
    state: Annotated[
        str, typer.Option(help="pending, delivered or dead.", autocompletion=completions.outbox_states)
    ] = "dead",
    limit: Limit = 50,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """List messages by their state, oldest first; the dead ones wait for someone to send them again."""
    from job_api.client import OutboxState

    wanted = state_among(OutboxState, state)
    with ending(), connect(address, token) as client:
        found = client.outbox_messages(wanted, page_size=page_size(limit))
        print_first(found, limit, operator_tables.outbox_messages, things="messages", as_json=as_json)


@outbox.command("resend", epilog=EXIT_CODES)
def resend(
    outbox_ids: Annotated[
        list[int] | None,
        typer.Argument(metavar="NUMBER", min=1, max=_NUMBER_MAX, help="Messages, by their numbers."),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All dead messages.")] = False,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Send dead messages again; mend first what they died of."""
    if bool(outbox_ids) is everything:
        raise invalid("name messages by their numbers, or --all of them")
    with ending(), connect(address, token) as client:
        count = client.resend_outbox_messages(outbox_ids) if outbox_ids else _resend_all(client)
        if as_json:
            show.document({"count": count})
        else:
            show.line(f"{count} messages are sent again" if count != 1 else "1 message is sent again")
        if (left := len(set(outbox_ids or ())) - count) > 0:
            say(f"{left} of those that were named: not dead, or not any more")


def _resend_all(client: Client) -> int:
    """Send again what is dead now, however many there are; what dies again needs longer than this takes."""
    total = 0
    while count := client.resend_outbox_messages():
        total += count
    return total
