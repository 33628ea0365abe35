"""All of them do synthetic work."""

from __future__ import annotations

from collections.abc import Mapping

from job_worker.executor.handler import Handler
from job_worker.handlers.synthetic import run_synthetic
from tests.support.patience.definitions import DEFINITIONS

HANDLERS: Mapping[str, Handler] = {each.job_type: run_synthetic for each in DEFINITIONS}
