"""Runs the checks on an executor, one after the other, and goes on after whatever fails."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import time
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path

import grpc

from verification.conformance.executors.bench import Bench
from verification.conformance.executors.catalog import CHECKS
from verification.conformance.executors.check import Check, Feature
from verification.conformance.executors.tested import Command
from verification.outcomes import Outcome, title_of
from verification.stage.processes import EXECUTOR
from verification.unmet import Unmet

GROUP = "executors"
CHECK_SECONDS_MAX = 120.0
"""Far more than any check takes; one that is still waiting hangs."""
_FAILURES = (AssertionError, TimeoutError, OSError, grpc.aio.AioRpcError, grpc.aio.UsageError)
"""What a check meets when the executor does not do as it must, or ends in the midst of it."""
_NO_START = "the executor does not start, as told above"

BUILT_IN = Command(
    EXECUTOR,
    {"BATON_PROGRESS_SECONDS": "0.1", "BATON_GRACE_SECONDS": "1", "BATON_RECONNECT_SECONDS_MAX": "0.3"},
)
"""`baton executor`, with times as short as somebody waits for; all checks apply."""


class UnusableCommand(Exception):
    """What was to be started can't be; the message is a line for whoever named it."""


def command_of(line: str) -> Command:
    """Read a command line as a shell would, and look whether there is such a program.

    Raises:
        UnusableCommand: There is not.
    """
    try:
        argv = shlex.split(line)
    except ValueError as error:
        raise UnusableCommand(f"the executor's command can't be read: {error}") from None
    if not argv:
        raise UnusableCommand("the executor's command is empty")
    if shutil.which(argv[0]) is None:
        raise UnusableCommand(f"the executor's command is not found: {argv[0]}")
    return Command(argv)


def features_of(names: Sequence[str]) -> Collection[Feature]:
    """Read the names of features, each by itself or several with commas between.

    Raises:
        UnusableCommand: There is no such feature.
    """
    told = [each.strip() for name in names for each in name.split(",") if each.strip()]
    unknown = [each for each in told if each not in set(Feature)]
    if unknown:
        raise UnusableCommand(f"there is no feature {unknown[0]!r}; there are {', '.join(Feature)}")
    return frozenset(Feature(each) for each in told)


async def run_checks(
    command: Command,
    directory: Path,
    *,
    without: Collection[Feature] = (),
    checks: Sequence[Check] = CHECKS,
) -> AsyncIterator[Outcome]:
    """Run the checks in their order, and tell of each as it ends.

    Args:
        directory: For the executor's logs.
        without: What the executor lacks; checks that need it are not judged.
    """
    await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
    bench = Bench(command, directory)
    try:
        for check in checks:
            lacking = [each for each in check.needs if each in without]
            if lacking:
                yield _outcome(check, 0.0, unjudged=f"it does without {', '.join(lacking)}")
            elif bench.hopeless:
                yield _outcome(check, 0.0, unjudged=_NO_START)
            else:
                yield await _run(check, bench)
    finally:
        await bench.close()


async def _run(check: Check, bench: Bench) -> Outcome:
    began, failure = time.monotonic(), ""
    try:
        async with asyncio.timeout(CHECK_SECONDS_MAX):
            await check.attempt(bench)
    except Unmet as unmet:
        failure = str(unmet)
    except _FAILURES as error:
        failure = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - began
    if failure:
        await bench.close()  # what follows is judged by a fresh start
        failure += "".join(f"\nif it lacks this: --without {each}" for each in check.needs)
    return _outcome(check, seconds, failure=failure)


def _outcome(check: Check, seconds: float, *, failure: str = "", unjudged: str = "") -> Outcome:
    return Outcome(
        group=GROUP,
        name=check.name,
        title=title_of(check.attempt),
        seconds=seconds,
        failure=failure,
        unjudged=unjudged,
    )
