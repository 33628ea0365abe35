"""Shows one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from job_api.operations.caller import Caller
from job_api.operations.visibility import visible_job
from shared.domain.identity import JobId
from shared.domain.jobs import Artifact, Job
from shared.storage.attempts import History
from shared.storage.transactions import Transactions

ARTIFACTS_MAX = 1_000
"""ListArtifacts has all."""
ATTEMPTS_MAX = 100
"""ListAttempts has all."""


@dataclass(frozen=True, slots=True)
class ShownJob:
    """A job with its first artifacts, without their content, and its newest attempts, the newest last."""

    job: Job
    artifacts: Sequence[Artifact]
    history: History


class GetJob:
    """Reads a job, its first artifacts and its newest attempts."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, caller: Caller, job_id: JobId) -> ShownJob:
        """Return the job as it is now.

        Raises:
            JobNotFound: There is none for this caller.
        """
        async with self._transactions.begin() as transaction:
            job = await visible_job(transaction, caller, job_id)
            artifacts: Sequence[Artifact] = ()
            if job.artifact_count:
                artifacts = await transaction.artifacts.page(
                    job_id, after=0, limit=ARTIFACTS_MAX, include_content=False
                )
            history = await transaction.attempts.history(job_id, limit=ATTEMPTS_MAX)
        return ShownJob(job, artifacts, history)
