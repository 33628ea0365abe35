"""Handlers that do not fit."""

from __future__ import annotations

from job_worker.executor.handler import JobContext
from tests.support.misfit_jobs.definitions import Other, Wanted


def takes_another(context: JobContext, given: Other) -> Wanted:
    return Wanted()


def returns_another(context: JobContext, given: Wanted) -> str:
    return ""


HANDLERS = {"wrong_input": takes_another, "wrong_output": returns_another, "unknown": takes_another}
