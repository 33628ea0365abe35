"""What they do: one thing for each word."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

from job_worker.executor.handler import Handler, HandlerFailure, JobContext
from tests.support.drill_jobs.definitions import Answer, Drill


async def async_drill(context: JobContext, given: Drill) -> Answer:
    match given.do:
        case "crash":
            raise RuntimeError("secret internals")
        case "fail":
            raise HandlerFailure(
                "PROVIDER_RATE_LIMIT", "come back later", timedelta(seconds=7), internal_message="429"
            )
        case "fail without a code":
            raise HandlerFailure("oops", "what?")
        case "stop itself":
            raise asyncio.CancelledError
        case "exit":
            raise SystemExit(3)
        case "answer nonsense":
            return Answer.model_construct(text=5, number="five")
        case "build nonsense":
            return Answer.model_validate({"text": "x", "number": "many"})
        case "answer too much":
            return Answer(text="x" * 2_000_000)
        case "emit too much":
            await context.emit("x" * 70_000)
        case "wait for doubt":
            return await _wait_for_doubt(context, given)
        case "hold the loop":
            time.sleep(1.5)  # noqa: ASYNC251 - it is what this drill is about
    return Answer(text=_seen(context))


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


PLAIN: Mapping[str, Callable[[JobContext], None]] = {
    "wait for cancel": _wait_for_cancel,
    "emit many": _emit_many,
    "report much": _report_much,
}

HANDLERS: Mapping[str, Handler] = {"async_drill": async_drill, "plain_drill": plain_drill}
