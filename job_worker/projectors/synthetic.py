"""Projects made-to-order work: one row for each job, by which a drill counts what was committed."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from job_worker.projectors.projector import ProjectedJob, ProjectionTransaction
from shared.catalog.synthetic import SyntheticOutput
from shared.domain.jobs import Artifact
from shared.storage import tables


async def project_synthetic(
    transaction: ProjectionTransaction, job: ProjectedJob, output: BaseModel
) -> Sequence[Artifact]:
    """Write the job's row; a second projection would meet its key."""
    assert isinstance(output, SyntheticOutput)
    transaction.insert(
        tables.synthetic_results, [{"job_id": job.job_id, "items": output.items, "attempt": job.attempt}]
    )
    return ()
