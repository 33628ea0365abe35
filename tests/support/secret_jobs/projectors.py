"""One projector that keeps the secret, or fails with it in hand."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from pydantic import BaseModel

from job_worker.projectors.projector import ProjectedJob, ProjectionTransaction
from shared.domain.jobs import Artifact
from shared.storage import tables
from tests.support.secret_jobs.definitions import Told


async def project(
    transaction: ProjectionTransaction, job: ProjectedJob, output: BaseModel
) -> Sequence[Artifact]:
    assert isinstance(output, Told)
    match output.do:
        case "raise":
            raise RuntimeError(output.secret)
        case "violate":
            row = {"job_id": job.job_id, "ordinal": 1, "content": output.secret}
            await transaction.execute(sa.insert(tables.knowledge_items).values(row))
        case "misread":
            await transaction.execute(sa.select(sa.cast(sa.literal(output.secret), sa.Uuid)))
        case _:
            pass
    return [Artifact("told", "1", 1, output.secret.encode())]


PROJECTORS = {"errand": project}
