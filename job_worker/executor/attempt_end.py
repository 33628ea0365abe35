"""Runs a handler, and puts the way it ended into the words of the contract."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import re
import sys
import traceback
from concurrent.futures import Executor
from typing import Any

import structlog
from pydantic import BaseModel, ValidationError

from job_worker.executor.handler import Cancelled, HandlerFailure, JobContext
from job_worker.executor.registry import RunnableJob
from job_worker.executor.wording import fitted, tail
from shared.catalog import json_text, misfits
from shared.domain.retries import PAYLOAD_TOO_LARGE, VALIDATION_OUTPUT
from shared.gen.baton.internal.v1.handler_pipe_pb2 import Ceased, Work, WorkEnd
from shared.gen.baton.v1.execution_service_pb2 import Failure, Success

log = structlog.get_logger(__name__)

INPUT_INVALID = "INPUT_INVALID"
INTERNAL_HANDLER = "INTERNAL_HANDLER"
MESSAGE_CHARACTERS_MAX = 1_000
INTERNAL_MESSAGE_CHARACTERS_MAX = 10_000
_CODE = re.compile(r"[A-Z][A-Z0-9_]{2,63}")


class _DoesNotFit(Exception):
    """What the handler returned is no output."""


async def run_to_end(job: RunnableJob, work: Work, context: JobContext, threads: Executor) -> WorkEnd:
    """Run one attempt and tell how it ended; pieces are not counted yet.

    Raises:
        asyncio.CancelledError: The handler let through that it was told to stop.
    """
    try:
        given = job.definition.input_model.model_validate_json(work.lease.input)
    except ValidationError as error:
        return _failed(work, INPUT_INVALID, misfits.sentence("input", error))
    try:
        made = await _called(job, context, given, threads)
        return _succeeded(work, _written(job.definition.output_model, made))
    except asyncio.CancelledError:
        if context.cancelled:
            raise
        return _crashed(work, "a task of the handler was cancelled from inside")
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises ends its attempt only
        return _raised(job, work, context, error)


def _raised(job: RunnableJob, work: Work, context: JobContext, error: BaseException) -> WorkEnd:
    match error:
        case Cancelled() if context.cancelled:
            return WorkEnd(number=work.number, ceased=Ceased())
        case HandlerFailure():
            return _failed_as_told(work, error)
        case _DoesNotFit():
            return _failed(work, VALIDATION_OUTPUT, str(error))
        # A handler builds its output from what a provider wrote; that it does not fit is no bug.
        case ValidationError() if error.title == job.definition.output_model.__name__:
            return _failed(work, VALIDATION_OUTPUT, misfits.sentence("output", error))
        case _:
            return _crashed(work)


async def _called(job: RunnableJob, context: JobContext, given: BaseModel, threads: Executor) -> Any:
    if not job.plain:
        return await job.handler(context, given)
    copied = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(threads, copied.run, job.handler, context, given)


def _written(model: type[BaseModel], made: Any) -> bytes:
    """Write an output as canonical JSON, checked against the model as everyone else will read it."""
    if not isinstance(made, model):
        found = f"the handler returned {type(made).__name__}, not {model.__name__}"
        raise _DoesNotFit(f"the output does not fit: {found}")
    try:
        output = json_text.canonical(made.model_dump(mode="json", warnings=False))
        json_text.parse(output)
        model.model_validate_json(output)
    except json_text.MalformedDocument as error:
        raise _DoesNotFit(f"the output {error}") from None
    except ValidationError as error:
        raise _DoesNotFit(misfits.sentence("output", error)) from None
    return output


def _succeeded(work: Work, output: bytes) -> WorkEnd:
    if len(output) > work.output_bytes_max:
        sentence = f"the output has {len(output)} bytes; at most {work.output_bytes_max} are allowed"
        return _failed(work, PAYLOAD_TOO_LARGE, sentence)
    # The output is its own canonical form, so this is `json_text.content_hash` of it.
    success = Success(output=output, output_hash=hashlib.sha256(output).hexdigest())
    return WorkEnd(number=work.number, success=success)


def _failed(work: Work, code: str, message: str) -> WorkEnd:
    failure = Failure(code=code, message=fitted(message, MESSAGE_CHARACTERS_MAX))
    return WorkEnd(number=work.number, failure=failure)


def _failed_as_told(work: Work, told: HandlerFailure) -> WorkEnd:
    if not _CODE.fullmatch(told.code):
        return _crashed(work, f"the handler failed with {told.code!r}, which is no error code")
    end = _failed(work, told.code, told.message or "the handler failed")
    end.failure.internal_message = fitted(told.internal_message, INTERNAL_MESSAGE_CHARACTERS_MAX)
    end.failure.permanent = told.permanent
    if told.retry_after is not None:
        end.failure.retry_after.FromTimedelta(told.retry_after)
    return end


def _crashed(work: Work, what: str = "") -> WorkEnd:
    """Tell of a bug in a handler: nothing of it to the caller, all of it to operators."""
    end = _failed(work, INTERNAL_HANDLER, "the handler failed")
    end.failure.internal_message = tail(what or traceback.format_exc(), INTERNAL_MESSAGE_CHARACTERS_MAX)
    kind = sys.exc_info()[0]
    log.warning("handler.failed", error=kind.__name__ if kind else what)
    return end
