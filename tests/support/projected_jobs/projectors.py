"""One projector that writes a row, and then whatever the output asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import sqlalchemy as sa
from pydantic import BaseModel

from job_worker.projectors.projector import ProjectedJob, ProjectionTransaction
from shared.catalog.synthetic import SyntheticInput
from shared.domain.jobs import Artifact
from shared.storage import tables
from tests.support.projected_jobs.definitions import Projected


async def project(
    transaction: ProjectionTransaction, job: ProjectedJob, output: BaseModel
) -> Sequence[Artifact]:
    assert isinstance(output, Projected)
    row = {"job_id": job.job_id, "items": 1, "attempt": job.attempt}
    await transaction.execute(sa.insert(tables.synthetic_results).values(row))
    await _go_wrong(transaction, output.do)
    match output.do:
        case "write_twice":
            transaction.insert(tables.synthetic_results, [row])
        case "same_artifact":
            return [Artifact("thing", "1", 1), Artifact("thing", "1", 2)]
        case "chain":
            transaction.create_job(job, "synthetic", SyntheticInput(items=5), priority=7)
        case _:
            pass
    return [Artifact("thing", "1", 1, b'{"a":1}')]


async def _go_wrong(transaction: ProjectionTransaction, how: str) -> None:
    match how:
        case "raise":
            raise RuntimeError("halfway")
        case "misname":
            nothing  # type: ignore[name-defined]  # noqa: B018, F821 - a slip of who wrote it
        case "sleep":
            await transaction.execute(sa.text("select pg_sleep(30)"))
        case "wait":
            await asyncio.Event().wait()
        case "break":
            await transaction.execute(sa.text("select 1 / 0"))
        case _:
            pass


PROJECTORS = {"projected": project}
