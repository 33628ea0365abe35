"""Checks outputs against their models, and runs their projectors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pydantic import BaseModel

from job_worker.operations import outputs
from job_worker.operations.outputs import ReadOutput
from job_worker.projectors.projector import PROJECTOR_FACTOR, ProjectedJob, ProjectionTransaction, Projector
from shared.catalog.catalog import Catalog
from shared.domain.errors import UnknownJobType
from shared.domain.jobs import Artifact, JobError
from shared.domain.leases import LeaseRef
from shared.domain.retries import INTERNAL_ERROR
from shared.storage.attempts import HeldAttempt
from shared.storage.transactions import Transaction


@dataclass(frozen=True, slots=True)
class SuccessfulAttempt:
    """An attempt whose output may be committed.

    Attributes:
        kept: What is stored of the output; None for nothing.
    """

    held: HeldAttempt
    output: ReadOutput
    document: BaseModel
    projector: str
    kept: bytes | None


class Projection:
    """Turns outputs into rows and artifacts."""

    def __init__(
        self, catalog: Catalog, projectors: Mapping[str, Projector], *, statement_time_max: timedelta
    ) -> None:
        self._catalog = catalog
        self._projectors = projectors
        self._statement_time_max = statement_time_max

    def check(self, held: HeldAttempt, output: ReadOutput) -> SuccessfulAttempt | JobError:
        """Read an output as its job type's model."""
        try:
            definition = self._catalog.definition(held.job_type)
        except UnknownJobType as error:
            return JobError(INTERNAL_ERROR, "the job type is not known any more", error.message)
        document = outputs.fit(output, definition)
        if isinstance(document, JobError):
            return document
        return SuccessfulAttempt(
            held, output, document, definition.projector, outputs.kept(output, definition)
        )

    async def __call__(
        self, transaction: Transaction, attempts: Sequence[SuccessfulAttempt]
    ) -> Mapping[LeaseRef, Sequence[Artifact]]:
        """Run the projectors and return what each made.

        Raises:
            TimeoutError: One took too long, whatever it waited for. A statement that does is the database's
                error, and so is whatever else goes wrong there.
        """
        if not attempts:
            return {}
        inside = ProjectionTransaction(transaction, self._catalog)
        await inside.limit_statements(self._statement_time_max)
        made = {each.held.lease: await self._projected(inside, each) for each in attempts}
        await inside.write()
        await inside.limit_statements(None)
        return made

    async def _projected(
        self, inside: ProjectionTransaction, attempt: SuccessfulAttempt
    ) -> Sequence[Artifact]:
        held = attempt.held
        job = ProjectedJob(held.lease.job_id, held.owner, held.job_type, held.attempt)
        async with asyncio.timeout(self._statement_time_max.total_seconds() * PROJECTOR_FACTOR):
            return await self._projectors[attempt.projector](inside, job, attempt.document)
