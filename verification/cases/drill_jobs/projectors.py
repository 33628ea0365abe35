"""A projector that writes, and then does as the output says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from shared.domain.jobs import Artifact
from verification.cases.drill_jobs.definitions import Projected

_INSERT = sa.text(
    "insert into synthetic_results (job_id, items, attempt) values (cast(:job_id as uuid), 1, :attempt)"
)


async def project(transaction: Any, job: Any, output: Projected) -> Sequence[Artifact]:
    """Write a row, and then fail by a bug, by a statement that is wrong, or by one that takes too long.

    Raises:
        RuntimeError: The output says so.
    """
    await transaction.execute(_INSERT, {"job_id": job.job_id, "attempt": job.attempt})
    match output.then:
        case "raise":
            raise RuntimeError("half-way")
        case "break":
            await transaction.execute(sa.text("select 1 / 0"))
        case "linger":
            await transaction.execute(sa.text("select pg_sleep(30)"))
        case "return":
            pass
    return [Artifact("drill", "1", 1)]


PROJECTORS = {"projection_drill": project}
