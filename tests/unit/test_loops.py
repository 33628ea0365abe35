"""Loops: when a step runs again, and what happens when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from shared.runtime.loops import Backoff, Loop, LoopCancelled, Timetable, background, run_forever
from tests.support.manual_clock import ManualClock

SECOND = timedelta(seconds=1)
TIMETABLE = Timetable(idle=10 * SECOND, transient=(ConnectionError,), backoff=Backoff(SECOND, 4 * SECOND))


class Away(ConnectionError):
    """What the steps here meet that is listed as transient."""


class Script:
    """A step that does one thing after another: returns a bool, raises an error, or calls a function.

    When it has come to its end it has nothing to do.
    """

    def __init__(self, *acts: bool | Exception | Callable[[], bool]) -> None:
        self.runs = 0
        self._acts = list(acts)

    async def step(self) -> bool:
        self.runs += 1
        act = self._acts.pop(0) if self._acts else False
        if isinstance(act, Exception):
            raise act
        return act if isinstance(act, bool) else act()


@asynccontextmanager
async def running(
    step: Callable[[], Awaitable[bool]],
    clock: ManualClock,
    wake: asyncio.Event | None = None,
    uniform: float = 0,
) -> AsyncIterator[None]:
    task = asyncio.create_task(
        run_forever(Loop("loop", step, TIMETABLE, wake), clock=clock, uniform=lambda: uniform)
    )
    try:
        await clock.until_sleeping()
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_step_that_found_nothing_is_repeated_after_the_idle_time() -> None:
    clock, script = ManualClock(), Script()
    async with running(script.step, clock):
        assert script.runs == 1

        await clock.advance(9 * SECOND)
        assert script.runs == 1

        await clock.advance(1 * SECOND)
        assert script.runs == 2


async def test_a_step_that_may_find_more_is_repeated_at_once() -> None:
    clock, script = ManualClock(), Script(True, True, False)
    async with running(script.step, clock):
        assert script.runs == 3


async def test_idle_times_are_shortened_by_up_to_a_tenth_so_that_replicas_drift_apart() -> None:
    clock = ManualClock()
    async with running(Script().step, clock, uniform=1):
        assert clock.sleeping == [9 * SECOND]


async def test_a_wake_up_ends_the_idle_time() -> None:
    clock, script, wake = ManualClock(), Script(), asyncio.Event()
    async with running(script.step, clock, wake):
        wake.set()
        await clock.advance(timedelta())

        assert script.runs == 2
        assert len(clock.sleeping) == 1


async def test_a_wake_up_during_a_step_is_not_lost() -> None:
    clock, wake = ManualClock(), asyncio.Event()

    def woken_meanwhile() -> bool:
        wake.set()
        return False

    script = Script(woken_meanwhile)
    async with running(script.step, clock, wake):
        await clock.advance(timedelta())

        assert script.runs == 2


async def test_wake_ups_during_a_rest_share_the_next_step() -> None:
    clock, wake, script = ManualClock(), asyncio.Event(), Script(False)
    timetable = Timetable(idle=10 * SECOND, rest=SECOND)
    loop = Loop("loop", script.step, timetable, wake)
    task = asyncio.create_task(run_forever(loop, clock=clock, uniform=lambda: 0))
    await clock.until_sleeping()
    for _ in range(3):
        wake.set()
        await clock.advance(SECOND / 4)
    assert script.runs == 1
    await clock.advance(SECOND / 4)
    assert script.runs == 2
    await clock.advance(9 * SECOND)
    assert script.runs == 2
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_transient_error_is_logged_and_the_step_tried_again_after_a_wait() -> None:
    clock, script = ManualClock(), Script(Away("no route"))
    with capture_logs() as logs:
        async with running(script.step, clock, uniform=0.5):
            assert clock.sleeping == [0.5 * SECOND]

            await clock.advance(0.5 * SECOND)
            assert script.runs == 2

    assert logs == [
        {
            "event": "loop.step_failed",
            "log_level": "warning",
            "failures": 1,
            "wait_s": 0.5,
            "error": "Away('no route')",
        }
    ]


async def test_waits_double_up_to_the_cap_and_begin_anew_after_a_success() -> None:
    clock, waits = ManualClock(), []
    script = Script(Away(), Away(), Away(), Away(), True, Away())
    async with running(script.step, clock, uniform=0.5):
        for _ in range(5):
            waits.append(clock.sleeping[0])
            await clock.advance(waits[-1])

    assert waits == [0.5 * SECOND, 1 * SECOND, 2 * SECOND, 2 * SECOND, 0.5 * SECOND]


async def test_any_other_error_leaves_the_loop() -> None:
    script = Script(ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        await run_forever(Loop("loop", script.step, TIMETABLE), clock=ManualClock())


def test_a_wait_stays_within_its_cap_however_often_it_failed() -> None:
    assert Backoff(SECOND, 30 * SECOND).delay(10_000, uniform=1) == 30 * SECOND


async def test_background_loops_run_while_the_body_does_and_are_gone_after_it() -> None:
    clock, first, second = ManualClock(), Script(), Script()
    async with background(
        Loop("first", first.step, TIMETABLE), Loop("second", second.step, TIMETABLE), clock=clock
    ):
        await clock.until_sleeping(2)

    assert (first.runs, second.runs) == (1, 1)
    assert clock.sleeping == []


async def test_a_loop_that_dies_ends_the_body_with_its_error_as_itself() -> None:
    cause = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug") as raised, capture_logs() as logs:
        async with background(Loop("loop", Script(cause).step, TIMETABLE), clock=ManualClock()):
            await asyncio.Event().wait()

    assert raised.value is cause
    assert [(each["event"], each["loop"]) for each in logs] == [("loop.died", "loop")]


async def test_of_two_loops_that_die_the_first_error_is_raised_and_both_are_logged() -> None:
    loops = [Loop(name, Script(KeyError(name)).step, TIMETABLE) for name in ("first", "second")]
    with pytest.raises(KeyError, match="first"), capture_logs() as logs:
        async with background(*loops, clock=ManualClock()):
            await asyncio.Event().wait()

    assert [each["loop"] for each in logs] == ["first", "second"]


async def test_the_bodys_own_error_comes_out_as_itself_with_its_cause() -> None:
    def body() -> None:
        raise LookupError("the body's") from OSError("its cause")

    with pytest.raises(LookupError) as raised:
        async with background(Loop("loop", Script().step, TIMETABLE), clock=ManualClock()):
            body()

    assert isinstance(raised.value.__cause__, OSError)


async def test_a_cancellation_that_comes_from_inside_a_step_is_no_silent_end() -> None:
    async def step() -> bool:
        raise asyncio.CancelledError

    with pytest.raises(LoopCancelled, match="the loop odd was cancelled"):
        async with background(Loop("odd", step, TIMETABLE), clock=ManualClock()):
            await asyncio.Event().wait()


async def test_cancelling_the_body_from_outside_stays_a_cancellation() -> None:
    inside = asyncio.Event()

    async def body() -> None:
        async with background(Loop("loop", Script().step, TIMETABLE), clock=ManualClock()):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await inside.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_that_a_step_loses_still_ends_the_loop() -> None:
    """Libraries lose one now and then, when it comes together with what they wait for."""
    entered = asyncio.Event()

    async def deaf() -> bool:
        entered.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return False

    async with asyncio.timeout(5):
        async with background(Loop("deaf", deaf, TIMETABLE)):
            await entered.wait()
