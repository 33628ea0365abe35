"""`baton verify`: proves the guarantees on a stack of its own, or the protocol on yours."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

_EXIT_FAILED = 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify)


def verify(
    case: Annotated[list[int] | None, typer.Option(help="Run this case of the ten; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="All chance comes from it.")] = 1,
    scale: Annotated[float, typer.Option(min=0.01, max=10, help="Sizes, 1 for the full ones.")] = 0.1,
    seconds: Annotated[
        float | None, typer.Option(min=5, help="How long case 10 lasts; 300, at the scale, if not told.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=1_000, help="How often to run all of it.")] = 1,
    record: Annotated[Path | None, typer.Option(help="Keep everything that was written down here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Put the engine under fire, and judge what became of every job."""
    from verification import outcomes, report
    from verification.cases.catalog import CASES
    from verification.cases.running import run_cases
    from verification.stage.terms import Terms

    async def run(directory: Path) -> list[outcomes.Outcome]:
        chosen = [each for each in CASES if case is None or each.number in case]
        found = []
        terms = Terms(seed, scale, seconds, tell=lambda line: typer.echo(f"{'':<8}{line}", err=as_json))
        async for outcome in run_cases(chosen, directory, terms, repeat=repeat):
            typer.echo(report.line(outcome), err=as_json)
            found.append(outcome)
        return found

    with tempfile.TemporaryDirectory(prefix="baton-verify-") as temporary:
        found = asyncio.run(run(record or Path(temporary)))
    typer.echo(
        json.dumps(outcomes.as_json(found, seed=seed, scale=scale), indent=2)
        if as_json
        else report.summary(found)
    )
    raise typer.Exit(0 if all(each.passed for each in found) else _EXIT_FAILED)
