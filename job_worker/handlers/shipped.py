"""The handlers of the job types that ship with the engine."""

from __future__ import annotations

from collections.abc import Mapping

from job_worker.executor.handler import Handler
from job_worker.handlers.synthetic import run_synthetic

HANDLERS: Mapping[str, Handler] = {"synthetic": run_synthetic}
