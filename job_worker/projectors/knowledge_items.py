"""Projects `document_import` jobs: a row and an artifact for each knowledge item."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from job_worker.projectors.projector import ProjectedJob, ProjectionTransaction
from shared.catalog import json_text
from shared.catalog.document_import import DocumentImportOutput, KnowledgeItem
from shared.domain.jobs import Artifact
from shared.storage import tables

ARTIFACT_TYPE = "knowledge_item"


async def project_knowledge_items(
    transaction: ProjectionTransaction, job: ProjectedJob, output: BaseModel
) -> Sequence[Artifact]:
    """Write the items; an artifact's id is its ordinal, as a document may hold the same text twice."""
    assert isinstance(output, DocumentImportOutput)
    transaction.insert(tables.knowledge_items, [_row(job, item) for item in output.items])
    return [
        Artifact(
            type=ARTIFACT_TYPE,
            id=str(item.ordinal),
            ordinal=item.ordinal,
            content=json_text.canonical(item.model_dump(mode="json")),
        )
        for item in output.items
    ]


def _row(job: ProjectedJob, item: KnowledgeItem) -> dict[str, object]:
    return {
        "job_id": job.job_id,
        "ordinal": item.ordinal,
        "owner": job.owner,
        "heading_path": item.heading_path,
        "content": item.text,
        "characters": item.characters,
        "sha256": item.sha256,
        "page": item.page,
    }
