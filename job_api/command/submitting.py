"""`baton submit`."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from job_api.command import completions, show, watching
from job_api.command.exits import ending, invalid
from job_api.command.options import DEFAULT_ADDRESS, Address, AsJsonLines, Token, connect
from job_api.command.reading import labels_of

if TYPE_CHECKING:
    from job_api.client import Client

UPLOAD_FIELD = "upload_id"
"""Where an input refers to a document; the job types that take one say so in their input's schema."""


def submit(
    job_type: Annotated[
        str, typer.Argument(metavar="TYPE", help="The job type.", autocompletion=completions.job_types)
    ],
    *,
    input_: Annotated[
        str, typer.Option("--input", metavar="FILE|-|JSON", help="The input: a file, - for stdin, or JSON.")
    ] = "{}",
    document: Annotated[
        Path | None, typer.Option(help="Upload this file, and put its id into the input's upload_id.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Idempotency key, 8 to 128 visible ASCII characters: the same key is the same job."
        ),
    ] = None,
    priority: Annotated[int | None, typer.Option(min=0, max=100, help="0 first to 100 last.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated.")] = None,
    run_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start no sooner: ISO 8601, local time without a zone.")
    ] = None,
    watch: Annotated[bool, typer.Option(help="Follow the job to its end.")] = False,
    as_json: AsJsonLines = False,
    address: Address = DEFAULT_ADDRESS,
    token: Token = None,
) -> None:
    """Create a job, and say its id."""
    text = _input_text(input_)
    if document is not None:
        _check_readable(document)
    run_time = _time(run_at) if run_at else None
    labels = labels_of(label or ())
    with ending(), connect(address, token) as client:
        if document is not None:
            _check_takes_document(client, job_type)
            text = _with_document(client, text, document)
        job = client.create_job(
            job_type, text, idempotency_key=key, priority=priority, labels=labels, run_time=run_time
        )
        if not watch:
            _tell(job.to_json(), f"{job.job_id}", as_json=as_json)
            return
        if not as_json:
            show.line(f"{job.job_id} {'was created before' if job.replayed else 'created'}")
        watching.follow(client, job.job_id, as_json=as_json)


def _tell(value: Any, text: str, *, as_json: bool) -> None:
    if as_json:
        show.document(value)
    else:
        show.line(text)


def _input_text(source: str) -> bytes:
    """Read the input: JSON starts like JSON, so anything else is a file's name."""
    try:
        if source == "-":
            return sys.stdin.buffer.read()
        if source.lstrip()[:1] in ("{", "["):
            return source.encode()
        return Path(source).read_bytes()
    except OSError as error:
        raise invalid(f"the input {source!r} can't be read: {error.strerror}") from None


def _check_readable(document: Path) -> None:
    try:
        document.open("rb").close()
    except OSError as error:
        raise invalid(f"the document {str(document)!r} can't be read: {error.strerror}") from None


def _check_takes_document(client: Client, job_type: str) -> None:
    """End the command if the job type is known to take no document; creating the job judges the rest."""
    from job_api.client import errors

    try:
        schema = next((each.input_schema for each in client.definitions() if each.job_type == job_type), None)
    except errors.PermissionDenied:  # whoever may only create jobs
        return
    if schema is not None and UPLOAD_FIELD not in schema.get("properties", {}):
        raise invalid(f"the job type {job_type!r} takes no document: its input has no {UPLOAD_FIELD}")


def _with_document(client: Client, text: bytes, document: Path) -> bytes:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise invalid(f"the input is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise invalid("the input must be a JSON object, to refer to the document")
    return json.dumps({**value, UPLOAD_FIELD: str(client.upload(document).upload_id)}).encode()


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise invalid(f"{text!r} is no time such as 2030-01-31T08:00 or 2030-01-31T08:00Z") from None
