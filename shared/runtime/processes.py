"""How a process starts, ends, and says in one line why it can't."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog

from shared.runtime import logs, settings
from shared.runtime.faults import Faulty

log = structlog.get_logger(__name__)

EXIT_FAULT = 2
"""It can't start as it was told to; starting it again will not help before something else changes."""
EXIT_INTERRUPTED = 130
"""Ended by Ctrl-C, as shells report it."""
EXIT_UNREAD = 141
"""Nobody reads the output any more, as shells report it."""

S = TypeVar("S", bound=settings.ProcessSettings)


def begin(settings_class: type[S]) -> S:
    """Read the settings, start the logs as they say, and warn of variables that look misspelt.

    Raises:
        SettingsFault: The environment does not give the settings.
    """
    loaded = settings.load(settings_class)
    logs.configure(level=loaded.log_level, log_format=loaded.log_format)
    for variable, known in settings.near_misses(settings_class).items():
        log.warning("settings.unknown_variable", variable=variable, did_you_mean=known)
    return loaded


def run(main: Callable[[], Coroutine[Any, Any, int | None]]) -> int:
    """Run a process's main coroutine to its end, on uvloop where it is installed.

    Returns:
        The exit code: what `main` returned (0 for None), `EXIT_FAULT` for an error with `faults`, which
        are printed on standard error, one line each, or `EXIT_INTERRUPTED`. Any other error is a bug and
        leaves as itself.
    """
    with expected_errors() as outcome, asyncio.Runner(loop_factory=_loop_factory()) as runner:
        outcome.exit_code = runner.run(main()) or 0
    return outcome.exit_code


class Outcome:
    """How the block of `expected_errors` ended."""

    exit_code: int = 0


@contextmanager
def expected_errors() -> Iterator[Outcome]:
    """Turn errors that a person can act on into lines on standard error and an exit code."""
    outcome = Outcome()
    try:
        yield outcome
    except KeyboardInterrupt:
        outcome.exit_code = EXIT_INTERRUPTED
    except Exception as error:
        cause = _single(error)
        if not isinstance(cause, Faulty):
            raise
        for fault in cause.faults:
            print(f"baton: {fault}", file=sys.stderr)
        outcome.exit_code = EXIT_FAULT


def _single(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - a platform may lack it, and the loop must still run
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def until_signalled() -> signal.Signals:
    """Wait for SIGINT or SIGTERM and return it.

    From then on a second one ends the process the hard way, so a stop that hangs can be cut short.
    """
    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[signal.Signals] = loop.create_future()

    def note(received: signal.Signals) -> None:
        if not signalled.done():
            signalled.set_result(received)

    watched = (signal.SIGINT, signal.SIGTERM)
    for each in watched:
        loop.add_signal_handler(each, note, each)
    try:
        received = await signalled
    finally:
        for each in watched:
            loop.remove_signal_handler(each)
    log.info("process.signalled", signal=received.name)
    return received
