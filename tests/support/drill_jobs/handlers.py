"""What they do: one thing for each word."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path

from job_worker.executor.handler import Handler, HandlerFailure, JobContext
from tests.support.drill_jobs.definitions import Answer, Drill


async def async_drill(context: JobContext, given: Drill) -> Answer:
    return await ASYNC[given.do](context, given)


async def _answer(context: JobContext, given: Drill) -> Answer:
    return Answer(text=_seen(context))


async def _crash(context: JobContext, given: Drill) -> Answer:
    raise RuntimeError("secret internals")


async def _fail(context: JobContext, given: Drill) -> Answer:
    raise HandlerFailure(
        "PROVIDER_RATE_LIMIT", "come back later", timedelta(seconds=7), internal_message="429"
    )


async def _fail_without_a_code(context: JobContext, given: Drill) -> Answer:
    raise HandlerFailure("oops", "what?")


async def _stop_itself(context: JobContext, given: Drill) -> Answer:
    raise asyncio.CancelledError


async def _exit(context: JobContext, given: Drill) -> Answer:
    raise SystemExit(3)


class _Unforeseen(BaseException):
    """Not even an `Exception`."""


async def _raise_something_else(context: JobContext, given: Drill) -> Answer:
    raise _Unforeseen


async def _interrupt(context: JobContext, given: Drill) -> Answer:
    raise KeyboardInterrupt


async def _answer_nonsense(context: JobContext, given: Drill) -> Answer:
    return Answer.model_construct(text=5, number="five")  # type: ignore[arg-type]


async def _build_nonsense(context: JobContext, given: Drill) -> Answer:
    return Answer.model_validate({"text": "x", "number": "many"})


async def _answer_too_much(context: JobContext, given: Drill) -> Answer:
    return Answer(text="x" * 2_000_000)


async def _emit_too_much(context: JobContext, given: Drill) -> Answer:
    await context.emit("x" * 70_000)
    return Answer(text="")


async def _hold_the_loop(context: JobContext, given: Drill) -> Answer:
    time.sleep(1.5)  # noqa: ASYNC251 - it is what this drill is about
    return Answer(text="")


async def _hold_the_loop_in_a_task_of_its_own(context: JobContext, given: Drill) -> Answer:
    return await asyncio.create_task(_hold_the_loop(context, given))


async def _wait_for_doubt(context: JobContext, given: Drill) -> Answer:
    """Report each change of `lease_uncertain`, until it is certain again."""
    doubted = False
    while not doubted or context.lease_uncertain:
        if context.lease_uncertain and not doubted:
            doubted = True
            Path(given.file).touch()  # noqa: ASYNC240 - a moment
        await asyncio.sleep(0.01)
    return Answer(text="doubted, then certain")


def plain_drill(context: JobContext, given: Drill) -> Answer:
    if given.do in PLAIN:
        PLAIN[given.do](context)
    return Answer(text=_seen(context))


def _seen(context: JobContext) -> str:
    document = context.document()
    if document is not None:
        return f"{document.file_name} {document.media_type} {len(document.content)}"
    error = context.last_error
    return f"attempt {context.attempt} after {error.code if error else 'nothing'}"


def _wait_for_cancel(context: JobContext) -> None:
    context.report_progress(1, "waiting")
    while True:
        context.raise_if_cancelled()
        time.sleep(0.01)


def _emit_many(context: JobContext) -> None:
    for number in range(1_000):
        context.emit_piece(f"{number} ")


def _report_much(context: JobContext) -> None:
    context.report_progress(41.9, "y" * 300)
    _wait_for_cancel_quietly(context)


def _wait_for_cancel_quietly(context: JobContext) -> None:
    while not context.cancelled:
        time.sleep(0.01)


ASYNC: Mapping[str, Callable[[JobContext, Drill], Awaitable[Answer]]] = {
    "answer": _answer,
    "crash": _crash,
    "fail": _fail,
    "fail without a code": _fail_without_a_code,
    "stop itself": _stop_itself,
    "exit": _exit,
    "raise something else": _raise_something_else,
    "interrupt": _interrupt,
    "answer nonsense": _answer_nonsense,
    "build nonsense": _build_nonsense,
    "answer too much": _answer_too_much,
    "emit too much": _emit_too_much,
    "hold the loop": _hold_the_loop,
    "hold the loop in a task of its own": _hold_the_loop_in_a_task_of_its_own,
    "wait for doubt": _wait_for_doubt,
}
PLAIN: Mapping[str, Callable[[JobContext], None]] = {
    "wait for cancel": _wait_for_cancel,
    "emit many": _emit_many,
    "report much": _report_much,
}

HANDLERS: Mapping[str, Handler] = {"async_drill": async_drill, "plain_drill": plain_drill}
