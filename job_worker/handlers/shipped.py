"""The handlers of the job types that ship with the engine."""

from __future__ import annotations

from collections.abc import Mapping

from job_worker.executor.handler import Handler
from job_worker.handlers.document_import import import_document
from job_worker.handlers.synthetic import run_synthetic
from shared.catalog import media

HANDLERS: Mapping[str, Handler] = {
    "document_import": import_document,
    "synthetic": run_synthetic,
    **{each.job_type: run_synthetic for each in media.DEFINITIONS},
}
