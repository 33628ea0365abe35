"""Runs what happens when nobody calls: bounded steps, each with a timetable.

A loop never gives up on a transient error and never survives any other: an error that its timetable
does not list leaves `background`, cancels what runs inside it, and so ends the process. The process's
supervisor starts it afresh, which is the only repair that is known to work for a bug.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import structlog

from shared.runtime.clock import Clock, SystemClock

log = structlog.get_logger(__name__)

Step = Callable[[], Awaitable[bool]]
"""One bounded pass; True means that there may be more, so it is called again at once."""

Uniform = Callable[[], float]
"""Draws from [0, 1)."""

_IDLE_JITTER = 0.1
"""The share of an idle wait that is random, so that replicas that started together drift apart."""

_DOUBLINGS_MAX = 32
"""Enough to pass any cap; more would overflow a timedelta."""


class LoopCancelled(Exception):
    """A loop was cancelled by something inside its step, not by the one that runs it."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Full jitter: a wait anywhere between nothing and a bound that doubles up to the cap."""

    base: timedelta = timedelta(seconds=0.5)
    cap: timedelta = timedelta(seconds=30)

    def delay(self, failures: int, *, uniform: float) -> timedelta:
        """Return the wait after `failures` failures in a row, which is at least 1.

        Args:
            failures: The failure that has just happened included.
            uniform: A draw from [0, 1).
        """
        doublings = min(failures - 1, _DOUBLINGS_MAX)
        return min(self.cap, self.base * (1 << doublings)) * uniform


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a loop runs.

    Attributes:
        idle: The longest wait after a step that found nothing more to do.
        transient: Errors that say nothing about the work: they are logged, and the step is tried again.
        backoff: The wait after transient errors.
        rest: The least wait after any step: what comes meanwhile shares the next one, so that many wake-ups
            cost no more steps than a few.
    """

    idle: timedelta
    transient: tuple[type[BaseException], ...] = ()
    backoff: Backoff = Backoff()
    rest: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Loop:
    """A step with a name and a timetable.

    Attributes:
        wake: Ends the idle wait early when set. A hint: whoever sets it promises nothing, and a lost
            one costs an idle wait. Cleared by the loop, so no two loops may share one.
    """

    name: str
    step: Step
    timetable: Timetable
    wake: asyncio.Event | None = None


async def run_forever(loop: Loop, *, clock: Clock, uniform: Uniform = random.random) -> None:
    """Run the loop's steps until an error that is not transient, or cancellation.

    Its wake-up is cleared before a step, so one that comes during the step is kept for the wait after it.
    """
    failures = 0
    with structlog.contextvars.bound_contextvars(loop=loop.name):
        while True:
            if loop.wake is not None:
                loop.wake.clear()
            try:
                more = await loop.step()
            except loop.timetable.transient as error:
                _heed_cancellation()
                failures += 1
                wait = loop.timetable.backoff.delay(failures, uniform=uniform())
                log.warning(
                    "loop.step_failed", failures=failures, wait_s=wait.total_seconds(), error=repr(error)
                )
                await clock.sleep(wait)
                continue
            _heed_cancellation()
            failures = 0
            if loop.timetable.rest:
                await clock.sleep(loop.timetable.rest)
            if more:
                await asyncio.sleep(0)  # a step that never waits must not starve the process
            else:
                await _wait(loop.timetable.idle * (1 - _IDLE_JITTER * uniform()), clock, loop.wake)


def _heed_cancellation() -> None:
    """End the loop if it was cancelled inside a library that lost the cancellation, as some do in a race.

    Raises:
        CancelledError: It was.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _wait(idle: timedelta, clock: Clock, wake: asyncio.Event | None) -> None:
    if wake is None:
        await clock.sleep(idle)
        return
    waits = (asyncio.ensure_future(clock.sleep(idle)), asyncio.ensure_future(wake.wait()))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pending in waits:
            pending.cancel()


@asynccontextmanager
async def background(*loops: Loop, clock: Clock | None = None) -> AsyncIterator[None]:
    """Run the loops while the body runs; cancel them, and wait for them, when it ends.

    If a loop dies, the body is cancelled and the loop's error is raised in its place, as itself and
    not in a group. Of several errors the first one is raised; the others are in the log.
    """
    clock = clock or SystemClock()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run(loop, clock), name=loop.name) for loop in loops]
            yield
            for task in tasks:
                task.cancel()
        return
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
    raise first  # outside the except block: the group must not become its context


async def _run(loop: Loop, clock: Clock) -> None:
    """Run one loop so that no end of it goes unnoticed.

    A task group takes a cancelled task for one that it may forget. A step that lets a stray
    cancellation out, of a future that a library cancelled, would end its loop in silence.
    """
    try:
        await run_forever(loop, clock=clock)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        log.error("loop.died", loop=loop.name, error="cancelled from inside")
        raise LoopCancelled(f"the loop {loop.name} was cancelled from inside its step") from None
    except Exception as error:
        log.error("loop.died", loop=loop.name, error=repr(error))
        raise
