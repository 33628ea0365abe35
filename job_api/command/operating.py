"""What `baton queues` and `baton executors` list."""

from __future__ import annotations

from job_api.command import operator_tables, show
from job_api.command.exits import ending
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, Token, connect


def print_queues(*, as_json: bool, address: str, token: str | None) -> None:
    with ending(), connect(address, token) as client:
        queues = list(client.queues())
        if as_json:
            show.document([each.to_json() for each in queues])
        else:
            operator_tables.queues(queues)


def list_executors(
    *, as_json: AsJson = False, address: Address = DEFAULT_ADDRESS, token: Token = None
) -> None:
    """List executors, connected or lost: their leases, their job types, and when they were last heard of.

    An executor without leases says nothing after its hello, however well it is.
    """
    with ending(), connect(address, token) as client:
        executors = list(client.executors())
        if as_json:
            show.document([each.to_json() for each in executors])
        else:
            operator_tables.executors(executors)
