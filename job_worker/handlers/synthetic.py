"""The handler of `synthetic` and of the media drills: work made to order, for drills and benchmarks."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from job_worker.executor.handler import HandlerFailure, JobContext
from shared.catalog.synthetic import SyntheticInput, SyntheticOutput

EXIT_CODE = 70
"""Of a process that an attempt ends, so that it is not taken for a crash of another kind."""
_USLEEP_MICROSECONDS_MAX = 999_999
"""POSIX promises no more for one call."""
_NOTHING_TO_DO = SyntheticInput()


async def run_synthetic(context: JobContext, order: SyntheticInput) -> SyntheticOutput:
    """Do as the order says.

    Raises:
        HandlerFailure: The order says so.
    """
    if order == _NOTHING_TO_DO:
        return SyntheticOutput(items=order.items, attempt=context.attempt)
    with _entered(context, order.ledger):
        if context.attempt in order.exit_attempts:
            _enter(context, order.ledger, "exiting")
            os._exit(EXIT_CODE)
        await _work(context, order)
        await _stream(context, order)
        if context.attempt in order.fail_attempts:
            raise _ordered_failure(order)
    return SyntheticOutput(items=order.items, attempt=context.attempt, padding="x" * order.output_bytes)


async def _work(context: JobContext, order: SyntheticInput) -> None:
    seconds = order.duration_seconds / order.items if order.items else 0.0
    for done in range(order.items):
        _fail_if_ordered(context, order, done)
        await _WORK[order.work](seconds, order.ignore_cancel)
        await _give_way(order.ignore_cancel)
        if order.report_progress:
            context.report_progress(100 * (done + 1) / order.items, f"{done + 1} of {order.items} items")


async def _stream(context: JobContext, order: SyntheticInput) -> None:
    for done in range(order.pieces):
        _fail_if_ordered(context, order, done)
        await context.emit(f"{done + 1} ".ljust(order.piece_characters, ".")[: order.piece_characters])


def _fail_if_ordered(context: JobContext, order: SyntheticInput, done: int) -> None:
    if context.attempt in order.fail_attempts and done >= order.fail_after_items:
        raise _ordered_failure(order)


def _ordered_failure(order: SyntheticInput) -> HandlerFailure:
    return HandlerFailure(order.fail_code, "this attempt was ordered to fail")


async def _sleep(seconds: float, ignore_cancel: bool) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            if not ignore_cancel:
                raise


async def _give_way(ignore_cancel: bool) -> None:
    """Let others run, and a cancel arrive."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if not ignore_cancel:
            raise


async def _compute(seconds: float, _: bool) -> None:
    """Hold the event loop, but let other threads have the interpreter in between."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(number * number for number in range(1_000))


async def _block(seconds: float, _: bool) -> None:
    """Hold the interpreter lock, as a library in C may that does not let go of it."""
    library = ctypes.PyDLL(None)
    left = int(seconds * 1_000_000)
    while left > 0:
        library.usleep(min(left, _USLEEP_MICROSECONDS_MAX))
        left -= _USLEEP_MICROSECONDS_MAX


_WORK: dict[str, Callable[[float, bool], Awaitable[None]]] = {
    "sleeping": _sleep,
    "busy": _compute,
    "blocking": _block,
}


@contextmanager
def _entered(context: JobContext, ledger: str) -> Iterator[None]:
    """Write down how the attempt begins and ends."""
    _enter(context, ledger, "started")
    try:
        yield
    except asyncio.CancelledError:
        _enter(context, ledger, "cancelled")
        raise
    except HandlerFailure:
        _enter(context, ledger, "failed")
        raise
    _enter(context, ledger, "finished")


def _enter(context: JobContext, ledger: str, phase: str) -> None:
    """Append `job_id attempt token phase`, in one small write, so that processes may share a file."""
    if not ledger:
        return
    line = f"{context.job_id} {context.attempt} {context.token} {phase}\n".encode()
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)
