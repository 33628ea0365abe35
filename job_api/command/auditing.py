"""`baton audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from job_api.command import operator_tables
from job_api.command.exits import ending
from job_api.command.listing import Limit, print_first
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJson, Token, connect

if TYPE_CHECKING:
    from job_api.client import AuditFilter


def list_audit_records(
    *,
    subject: Annotated[str, typer.Option(help="Only what this subject did.")] = "",
    about: Annotated[
        UUID | None, typer.Option(metavar="ID", help="Only what was done to this job, batch or document.")
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """List what callers did, newest first; for admins."""
    which: AuditFilter = {"subject": subject}
    if about is not None:
        which["aggregate_id"] = about
    with ending(), connect(address, token) as client:
        found = client.audit_records(**which)
        print_first(found, limit, operator_tables.audit_records, things="records", as_json=as_json)
