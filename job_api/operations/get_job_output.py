"""Shows a job's output."""

from __future__ import annotations

from dataclasses import dataclass

from job_api.operations.caller import Caller
from job_api.operations.visibility import visible_job
from shared.domain.identity import JobId
from shared.storage.transactions import Transactions


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """JSON text, empty if there is none, and the hash over its canonical form, empty before success."""

    output: bytes
    output_hash: str


class GetJobOutput:
    """Reads an output as it was stored."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def __call__(self, caller: Caller, job_id: JobId) -> StoredOutput:
        """Return the output.

        Raises:
            JobNotFound: There is none for this caller.
        """
        async with self._transactions.begin() as transaction:
            job = await visible_job(transaction, caller, job_id)
            if not job.output_hash:
                return StoredOutput(b"", "")
            return StoredOutput(await transaction.attempts.output(job_id), job.output_hash)
