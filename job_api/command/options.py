"""Options that all commands about jobs have."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from job_api.command.exits import invalid

if TYPE_CHECKING:
    from job_api.client import Client, Tls

DEFAULT_ADDRESS = "127.0.0.1:7410"

Address = Annotated[
    str, typer.Option(envvar="BATON_CONTROL_ADDRESS", help="Where JobControl listens, host:port.")
]
Token = Annotated[
    str | None,
    typer.Option(envvar="BATON_TOKEN", show_envvar=True, help="Bearer token that says who calls."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for scripts.")]
AsJsonLines = Annotated[
    bool, typer.Option("--json", help="Write JSON for scripts; JSON lines while watching.")
]

EXIT_CODES = """\b
Exit codes:
  0    done; of what was watched: it succeeded, of a batch every item
  1    the watched job FAILED or was CANCELLED, or items of the batch did
  2    the command line, a file or the input is not valid
  3    there is no such job or batch for this caller
  4    a conflict: with the job's or batch's state, or with the key's content
  5    the service is out of reach or late; it is safe to try again
  6    the token is missing, not valid, or does not allow it
  7    a limit of the owner is reached
  8    anything else that the service said
  130  Ctrl-C; what was watched goes on
"""


def connect(address: str, token: str | None) -> Client:
    from job_api.client import Client

    _require_address(address)
    return Client(address, token=token or None, tls=_tls())


def _require_address(address: str) -> None:
    """gRPC would look up a name without a port, and dial another port for one that is too high."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise invalid(f"an address is host:port, such as {DEFAULT_ADDRESS}, not {address!r}")


def _tls() -> Tls | None:
    """Read with what to dial, if the environment says anything about it: settings take their time to load."""
    if not any(name.upper().startswith("BATON_TLS__") for name in os.environ):
        return None
    from job_api.client import Tls
    from shared.runtime.settings import CallerSettings, load

    return Tls.told(load(CallerSettings).tls)
