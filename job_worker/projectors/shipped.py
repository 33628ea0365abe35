"""The projectors that ship with the engine, by the key that definitions name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from job_worker.projectors.knowledge_items import project_knowledge_items
from job_worker.projectors.projector import Projector
from job_worker.projectors.synthetic import project_synthetic

PROJECTORS: Mapping[str, Projector] = MappingProxyType(
    {"synthetic": project_synthetic, "knowledge_items": project_knowledge_items}
)
