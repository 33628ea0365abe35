"""The job types that ship with the engine."""

from __future__ import annotations

from collections.abc import Sequence

from shared.catalog import document_import, media, synthetic
from shared.catalog.definition import JobDefinition

DEFINITIONS: Sequence[JobDefinition] = (
    synthetic.DEFINITION,
    document_import.DEFINITION,
    *media.DEFINITIONS,
)
