"""What `baton` can do: start every process, and ask every question.

The services bring their own groups by entry point, so this package knows neither of them, and an image that
holds one service has that one's commands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from shared.command.dev import CONTROL_PORT, EXECUTION_PORT, DevOptions, DevSettings, dev
from shared.command.token import token_command
from shared.domain.errors import BatonError
from shared.runtime.processes import EXIT_UNREAD, begin, expected_errors, run
from shared.runtime.settings import ProcessSettings

ENTRY_POINT_GROUP = "baton.commands"
EXIT_REFUSED = 1
"""The engine said no, or did not answer; the same call may succeed later."""

_EXECUTORS_MAX = 64
"""More on one machine is a mistyped number."""


class MigrateSettings(ProcessSettings):
    database_url: str


def run_command() -> None:
    """Run the command line and exit: an expected error is one line on standard error, never a traceback."""
    try:
        with expected_errors() as outcome:
            try:
                outcome.exit_code = build()(standalone_mode=False) or 0
            except BatonError as error:
                print(f"baton: {error.message} ({error.reason})", file=sys.stderr)
                outcome.exit_code = EXIT_REFUSED
            except TyperException as error:
                _tell_misuse(error)
                outcome.exit_code = error.exit_code
        sys.exit(outcome.exit_code)
    finally:
        _flush_output()


def _tell_misuse(error: TyperException) -> None:
    """Say what is wrong with a command line; where only the rest of it is missing, its help was shown."""
    message = " ".join(error.format_message().split()).removesuffix(".")
    if message:
        context = getattr(error, "ctx", None)
        where = f"; see `{context.command_path} --help`" if context else ""
        print(f"baton: {message[:1].lower()}{message[1:]}{where}", file=sys.stderr)


def _flush_output() -> None:
    """Write what is left of the output, or drop it and exit as shells expect if nobody reads it any more."""
    try:
        print(end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter's own last flush
        sys.exit(EXIT_UNREAD)


def build() -> typer.Typer:
    """Put the command together from what is installed."""
    app = typer.Typer(
        name="baton",
        help="A durable job engine: two gRPC services on Postgres and Redis.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.command("dev")(dev_command)
    app.command("migrate")(migrate_command)
    app.command("token")(token_command)
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda each: each.name):
        register = _registration(entry)
        if register is not None:
            register(app)
    return app


def _registration(entry: EntryPoint) -> Callable[[typer.Typer], None] | None:
    """Load a service's groups; None if that service is not part of this installation."""
    try:
        register: Callable[[typer.Typer], None] = entry.load()
    except ModuleNotFoundError as error:
        if error.name is None or not f"{entry.module}.".startswith(f"{error.name}."):
            raise
        return None
    return register


def dev_command(
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep everything here; a temporary directory otherwise.")
    ] = None,
    executors: Annotated[int, typer.Option(min=0, max=_EXECUTORS_MAX, help="How many executors.")] = 1,
    control_port: Annotated[
        int, typer.Option(min=0, max=65535, help="JobControl's port; 0: any.")
    ] = CONTROL_PORT,
    execution_port: Annotated[
        int, typer.Option(min=0, max=65535, help="ExecutionService's port; 0: any.")
    ] = EXECUTION_PORT,
) -> None:
    """Run everything on this machine: Postgres, Valkey, both services and executors, until Ctrl-C.

    Real servers are used where BATON_DATABASE_URL and BATON_REDIS_URL name them.
    """

    async def until_stopped() -> None:
        await dev(DevOptions(data_dir, executors, control_port, execution_port), begin(DevSettings))

    raise typer.Exit(run(until_stopped))


def migrate_command() -> None:
    """Bring the database's tables up to date; safe to run again, and from many places at once."""
    from shared.storage import migrate

    async def until_migrated() -> None:
        revision = await migrate.upgrade(begin(MigrateSettings).database_url)
        typer.echo(f"the database is at revision {revision}")

    raise typer.Exit(run(until_migrated))
