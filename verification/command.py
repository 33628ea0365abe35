"""`baton verify`: proves the guarantees on a stack of its own, or the protocol on yours."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
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

_TIMED_CASE = 10
"""It lasts as long as it is told; all others end by themselves."""

_Parts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="With --case: only this part, named as in the report; may be repeated."
    ),
]
_Target = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Check the JobControl that runs there instead.")
]
_Execution = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="With --target: its ExecutionService.")
]
_Token = Annotated[str | None, typer.Option(envvar="BATON_TOKEN", help="The token to send to them.")]


HELP = """Put the engine under fire, and judge what became of every job.

Without --case, the protocol is checked first.

The cases: 1 zombie, 2 busy handler, 3 Redis wiped, 4 cancel,
5 idempotency, 6 poison, 7 rolling stop, 8 projection, 9 streamed output,
10 everything, 11 delivery, 12 times, 13 last words, 14 batches.

With --executor, COMMAND is started instead, and judged by what it says to
a scripted service, whose address is in BATON_EXECUTION_ADDRESS. It must
take jobs of the type `synthetic` on the queue `drill`. What it lacks is
named by --without: progress (told while a handler works), pieces (streamed
output), failures, sizes (the input orders them), deafness (handlers that
ignore their end are killed), blocking (handlers may hold up their process),
exits (handlers may end their process).

With --target, services that run already are checked by their protocol,
without harm: the jobs that are created are `synthetic`, carry a label of
the run, and are cancelled where they are left. What needs leases is judged
only where no other executor takes the jobs.

It ends with 0 if all that was judged holds, 1 if something does not,
2 if the command line is not valid, 5 if a service is out of reach,
6 if it refuses the token, 130 after Ctrl-C.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify", help=HELP)(verify)


def verify(
    case: Annotated[
        list[int] | None, typer.Option(help="Run the case of this number; may be repeated.")
    ] = None,
    part: _Parts = None,
    seed: Annotated[int, typer.Option(help="Whatever chance decides comes from it.")] = 1,
    scale: Annotated[
        float, typer.Option(min=0.01, max=10, help="How much the cases try; 1 is the full size.")
    ] = 0.1,
    seconds: Annotated[
        float | None, typer.Option(min=5, help="How long case 10 lasts; 300 times the scale if not told.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=1_000, help="How often to run the cases.")] = 1,
    executor: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Judge this executor instead, in whatever language.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(metavar="FEATURE", help="What that executor lacks; may be repeated.")
    ] = None,
    target: _Target = None,
    execution: _Execution = None,
    token: _Token = None,
    record: Annotated[Path | None, typer.Option(help="A directory to keep the evidence in.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run what is asked for, tell of it as it comes, and exit as `HELP` says."""
    from verification import report
    from verification.cases.running import run_cases
    from verification.conformance.executors.running import run_checks
    from verification.conformance.services.running import check_target
    from verification.stage.terms import Terms

    tested, lacking = _executor_of(executor, without or ())
    _check_combination(target, execution, elsewhere=executor is not None or bool(case))
    if target is not None or tested is not None:
        _check_for_cases_alone({"--part": part, "--seconds": seconds, "--repeat": repeat > 1})
    chosen = _chosen(case, part, seconds)

    async def run(directory: Path) -> list[Outcome]:
        terms = Terms(seed, scale, seconds, tell=lambda line: typer.echo(f"{'':<8}{line}", err=as_json))
        if target is not None:
            tried = check_target(target, execution or "", token=token or None, directory=directory)
        elif tested is not None:
            tried = run_checks(tested, directory / "executors", without=lacking)
        else:
            tried = run_cases(chosen, directory, terms, repeat=repeat)
            tried = tried if case else _after_protocol(directory, tried)
        return await _told(tried, as_json=as_json)

    # It warns of children that end in the very moment in which Ctrl-C closes its loop.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    with _reaching(), _directory(record) as directory:
        found = asyncio.run(run(directory))
        told = _as_json(found, seed=seed, scale=scale)
        (directory / "report.json").write_text(told)
    typer.echo(told if as_json else report.summary(found))
    raise typer.Exit(0 if all(each.passed for each in found) else _EXIT_FAILED)


def _as_json(found: Sequence[Outcome], *, seed: int, scale: float) -> str:
    from verification import outcomes

    return json.dumps(outcomes.as_json(found, seed=seed, scale=scale), indent=2)


def _chosen(
    numbers: Sequence[int] | None, names: Sequence[str] | None, seconds: float | None
) -> Sequence[Case]:
    """The cases of these numbers with the parts of these names; leave with a line if there is no such one."""
    from verification.cases.case import with_parts
    from verification.cases.catalog import CASES
    from verification.outcomes import name_of

    cases = [each for each in CASES if not numbers or each.number in numbers]
    unknown = set(numbers or ()) - {each.number for each in cases}
    parts = [name_of(part) for each in cases for part in each.parts]
    if unknown:
        raise _invalid(f"there is no case {min(unknown)}; there are 1 to {len(CASES)}")
    if names and not numbers:
        raise _invalid("--part names a part of a case, so it needs --case")
    if set(names or ()) - set(parts):
        raise _invalid(
            f"there is no part {min(set(names or ()) - set(parts))!r}; there are {', '.join(parts)}"
        )
    if seconds is not None and not any(each.number == _TIMED_CASE for each in cases):
        raise _invalid(f"--seconds says how long case {_TIMED_CASE} lasts, which is not to be run")
    return [each for each in (with_parts(case, names) for case in cases) if each.parts]


def _check_for_cases_alone(given: Mapping[str, object]) -> None:
    """Leave with a line if something was said about cases where none is run."""
    for option in (name for name, value in given.items() if value):
        raise _invalid(f"{option} is said of cases, and --target and --executor run none")


@contextmanager
def _directory(record: Path | None) -> Iterator[Path]:
    """The place for what is written down: as told, or one that is removed afterwards."""
    if record is None:
        with tempfile.TemporaryDirectory(prefix="baton-verify-") as temporary:
            yield Path(temporary)
        return
    try:
        record.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=record).close()
    except OSError as error:
        raise _invalid(f"nothing can be written to {record}: {error.strerror}") from None
    yield record


async def _after_protocol(directory: Path, tried: AsyncIterator[Outcome]) -> AsyncIterator[Outcome]:
    """Check what ships by its protocol, then go on with what is tried."""
    from verification.conformance.shipped import check_shipped

    for each in (check_shipped(directory), tried):
        async for outcome in each:
            yield outcome


async def _told(tried: AsyncIterator[Outcome], *, as_json: bool) -> list[Outcome]:
    """Tell of each outcome as it comes, and return all of them; after a fault of the stack nothing comes."""
    from verification import report
    from verification.outcomes import Outcome
    from verification.stage.stack import StackFault

    found: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        typer.echo(report.line(outcome), err=as_json)
        found.append(outcome)

    try:
        async for outcome in tried:
            tell(outcome)
    except StackFault as fault:
        tell(Outcome("stack", "starts and stops", "It starts, and leaves nothing.", 0.0, failure=str(fault)))
    return found


def _executor_of(line: str | None, without: Sequence[str]) -> tuple[Command | None, Collection[Feature]]:
    """Read what was said about an executor to be judged, or leave with a line about what is wrong with it."""
    from verification.conformance.executors.running import UnusableCommand, command_of, features_of

    try:
        if line is None and without:
            raise UnusableCommand("--without says what an executor lacks, so it needs --executor")
        return (None if line is None else command_of(line)), features_of(without)
    except UnusableCommand as unusable:
        raise _invalid(str(unusable)) from None


def _check_combination(target: str | None, execution: str | None, *, elsewhere: bool) -> None:
    """Leave with a line if what was asked for does not go together."""
    if target is None and execution is not None:
        raise _invalid("--execution is checked beside a JobControl, so it needs --target")
    for address in (target, execution):
        if address is not None and not address.rpartition(":")[2].isdecimal():
            raise _invalid(f"{address} is no address: HOST:PORT is wanted")
    if target is not None and elsewhere:
        raise _invalid("--target is checked alone, without --case and --executor")


def _invalid(said: str) -> typer.Exit:
    """Tell what is wrong with the command line, and return what is to be raised."""
    typer.echo(f"baton: {said}", err=True)
    return typer.Exit(_EXIT_INVALID)


@contextmanager
def _reaching() -> Iterator[None]:
    """Turn services that can't be checked into a line and the exit code that other commands have for it."""
    from verification.conformance.services.running import OutOfReach

    try:
        yield
    except OutOfReach as error:
        typer.echo(f"baton: {error}", err=True)
        raise typer.Exit(_EXIT_CODES.get(error.status, _EXIT_OTHER)) from None
