"""Runs cases on stacks of their own, and has the evidence of each part judged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path

import asyncpg
import grpc

from verification.cases.case import Case, Part
from verification.evidence import batches, tables
from verification.evidence.evidence import Evidence
from verification.invariants.catalog import INVARIANTS
from verification.invariants.invariant import judge
from verification.outcomes import Outcome, name_of, title_of
from verification.peers.control import Refused
from verification.stage import sampling
from verification.stage import stack as stacks
from verification.stage.database import connected
from verification.stage.stack import SHORT_TIMES, Stack
from verification.stage.stage import SETTLE_SECONDS, Stage, staged
from verification.stage.terms import Terms

SETTLE_AFTER_FAILURE_SECONDS = 45.0
"""What a part that failed left behind is judged too, so it gets the time to come to its end."""

_FAILURES = (AssertionError, TimeoutError, Refused, OSError, grpc.aio.AioRpcError, asyncpg.PostgresError)
"""What a part raises when the engine does not do as it must; anything else is a fault of the suite."""


async def run_cases(
    chosen: Sequence[Case], directory: Path, terms: Terms, *, repeat: int = 1
) -> AsyncIterator[Outcome]:
    """Run cases in their order, all of them `repeat` times, and tell of each part as it ends.

    Args:
        directory: For everything that is written; what is there stays.
        terms: Of the first round; each round after it has the next seed.
    """
    for settings, group in groupby(chosen, key=lambda each: dict(each.settings)):
        mine = list(group)
        place = directory / f"stack-{mine[0].number}"
        terms.tell(f"starting a stack for {', '.join(f'case {each.number}' for each in mine)}")
        async with _running(place, settings) as stack:
            for turn in range(repeat):
                for each in mine:
                    for part in each.parts:
                        where = place / "parts" / f"{turn + 1}-{each.number}-{part.__name__}"
                        yield await _run_part(stack, each, part, where, terms.turn(turn))


@asynccontextmanager
async def _running(place: Path, settings: Mapping[str, str]) -> AsyncIterator[Stack]:
    await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
    with stacks.starting(place, executors=0, environment={**SHORT_TIMES, **settings}) as stack:
        await asyncio.to_thread(stack.until_ready)  # Ctrl-C does not wait for it
        yield stack


async def _run_part(stack: Stack, case: Case, part: Part, directory: Path, terms: Terms) -> Outcome:
    failure = ""
    async with staged(stack, directory, terms) as stage:
        try:
            await part(stage)
        except _FAILURES as error:
            failure = _told(error)
        try:
            await stage.settle(seconds=SETTLE_AFTER_FAILURE_SECONDS if failure else SETTLE_SECONDS)
        except _FAILURES as error:
            failure = failure or _told(error)
        seconds = stage.history.now()
        judgements = judge(INVARIANTS, await _evidence(stage))
        if failure:
            await stage.abandon()
    await asyncio.to_thread(stage.history.write, directory / "history.jsonl")
    return Outcome(
        group=f"case {case.number} {case.name}",
        name=name_of(part),
        title=title_of(part),
        seconds=seconds,
        failure=failure,
        judgements=judgements,
        notes=stage.notes,
    )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


async def _evidence(stage: Stage) -> Evidence:
    await sampling.look(stage.stack, stage.history, stage.run, stage.secret, stage.samples)
    rows = await tables.read(stage.stack.database_url, stage.run)
    async with connected(stage.stack.database_url) as connection:
        of_batches = await batches.read(connection, stage.run)
    tokens = {attempt["token"] for each in rows.values() for attempt in each.attempts}
    logs = [*stage.stack.directory.glob("logs/*.log"), *stage.directory.glob("*.log")]
    stage.samples.searches.extend(sampling.search_logs(logs, stage.secret, tokens))
    return Evidence(stage.history, stage.ledger.entries(), rows, stage.samples, of_batches)
