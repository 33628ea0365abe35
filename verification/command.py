"""`baton verify`: proves the guarantees on a stack of its own, or the protocol on yours."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from verification.cases.case import Case
    from verification.conformance.executors.check import Feature
    from verification.conformance.executors.tested import Command
    from verification.outcomes import Outcome

_EXIT_FAILED = 1
_EXIT_INVALID = 2
_EXIT_CODES = {"UNAVAILABLE": 5, "DEADLINE_EXCEEDED": 5, "UNAUTHENTICATED": 6, "PERMISSION_DENIED": 6}
_EXIT_OTHER = 8

_Parts = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="With --case: only parts of this name.")
]
_Target = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Check the JobControl that runs there instead.")
]
_Execution = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="With --target: its ExecutionService.")
]
_Token = Annotated[str | None, typer.Option(envvar="BATON_TOKEN", help="The token to send to them.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify)


def verify(
    case: Annotated[
        list[int] | None, typer.Option(help="Run the case of this number; may be repeated.")
    ] = None,
    part: _Parts = None,
    seed: Annotated[int, typer.Option(help="All chance comes from it.")] = 1,
    scale: Annotated[float, typer.Option(min=0.01, max=10, help="Sizes, 1 for the full ones.")] = 0.1,
    seconds: Annotated[
        float | None, typer.Option(min=5, help="How long case 10 lasts; 300, at the scale, if not told.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=1_000, help="How often to run all of it.")] = 1,
    executor: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Judge this executor instead, in whatever language.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(metavar="FEATURE", help="What that executor lacks; may be repeated.")
    ] = None,
    target: _Target = None,
    execution: _Execution = None,
    token: _Token = None,
    record: Annotated[Path | None, typer.Option(help="Keep everything that was written down here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Put the engine under fire and judge what became of every job; without --case, check the protocol first.

    With --executor, COMMAND is started instead, and judged by what it says to a scripted service; the address
    is in BATON_EXECUTION_ADDRESS. It must take jobs of the type `synthetic` on the queue `drill`. What it
    lacks is named by --without: progress, pieces, failures, sizes, deafness, blocking, exits.

    With --target, services that run already are checked by their protocol, without harm: the jobs that are
    created are `synthetic`, carry a label of the run, and are cancelled where they are left.
    """
    from verification import report
    from verification.cases.running import run_cases
    from verification.conformance.executors.running import run_checks
    from verification.conformance.services.running import check_target
    from verification.stage.terms import Terms

    tested, lacking = _executor_of(executor, without or ())
    _check_combination(target, execution, elsewhere=executor is not None or bool(case))

    async def run(directory: Path) -> list[Outcome]:
        terms = Terms(seed, scale, seconds, tell=lambda line: typer.echo(f"{'':<8}{line}", err=as_json))
        if target is not None:
            tried = check_target(target, execution or "", token=token or None, directory=directory)
        elif tested is not None:
            tried = run_checks(tested, directory / "executors", without=lacking)
        else:
            tried = run_cases(_chosen(case, part), directory, terms, repeat=repeat)
            tried = tried if case else _after_protocol(directory, tried)
        return await _told(tried, as_json=as_json)

    with _reaching(), tempfile.TemporaryDirectory(prefix="baton-verify-") as temporary:
        found = asyncio.run(run(record or Path(temporary)))
    typer.echo(_as_json(found, seed=seed, scale=scale) if as_json else report.summary(found))
    raise typer.Exit(0 if all(each.passed for each in found) else _EXIT_FAILED)


def _as_json(found: Sequence[Outcome], *, seed: int, scale: float) -> str:
    from verification import outcomes

    return json.dumps(outcomes.as_json(found, seed=seed, scale=scale), indent=2)


def _chosen(numbers: Sequence[int] | None, names: Sequence[str] | None) -> Sequence[Case]:
    """The cases of these numbers with the parts of these names; leave with a line if there are none."""
    from verification.cases.case import with_parts
    from verification.cases.catalog import CASES

    cases = [each for each in CASES if not numbers or each.number in numbers]
    chosen = [each for each in (with_parts(case, names) for case in cases) if each.parts]
    if not chosen:
        typer.echo(f"baton: no case has the number {numbers} and parts named {names}", err=True)
        raise typer.Exit(_EXIT_INVALID)
    return chosen


async def _after_protocol(directory: Path, tried: AsyncIterator[Outcome]) -> AsyncIterator[Outcome]:
    """Check what ships by its protocol, then go on with what is tried."""
    from verification.conformance.shipped import check_shipped

    for each in (check_shipped(directory), tried):
        async for outcome in each:
            yield outcome


async def _told(tried: AsyncIterator[Outcome], *, as_json: bool) -> list[Outcome]:
    """Tell of each outcome as it comes, and return all of them."""
    from verification import report

    found = []
    async for outcome in tried:
        typer.echo(report.line(outcome), err=as_json)
        found.append(outcome)
    return found


def _executor_of(line: str | None, without: Sequence[str]) -> tuple[Command | None, Collection[Feature]]:
    """Read what was said about an executor to be judged, or leave with a line about what is wrong with it."""
    from verification.conformance.executors.running import UnusableCommand, command_of, features_of

    try:
        if line is None and without:
            raise UnusableCommand("--without says what an executor lacks, so it needs --executor")
        return (None if line is None else command_of(line)), features_of(without)
    except UnusableCommand as unusable:
        typer.echo(f"baton: {unusable}", err=True)
        raise typer.Exit(_EXIT_INVALID) from None


def _check_combination(target: str | None, execution: str | None, *, elsewhere: bool) -> None:
    """Leave with a line if what was asked for does not go together."""
    if target is None and execution is not None:
        said = "--execution is checked beside a JobControl, so it needs --target"
    elif target is not None and elsewhere:
        said = "--target is checked alone, without --case and --executor"
    else:
        return
    typer.echo(f"baton: {said}", err=True)
    raise typer.Exit(_EXIT_INVALID)


@contextmanager
def _reaching() -> Iterator[None]:
    """Turn services that can't be checked into a line and the exit code that other commands have for it."""
    from verification.conformance.services.running import OutOfReach

    try:
        yield
    except OutOfReach as error:
        typer.echo(f"baton: {error}", err=True)
        raise typer.Exit(_EXIT_CODES.get(error.status, _EXIT_OTHER)) from None
