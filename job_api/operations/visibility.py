"""Reads a job or batch for a caller: another owner's does not exist."""

from __future__ import annotations

from job_api.operations.caller import Caller
from shared.domain.batches import Batch
from shared.domain.errors import BatchNotFound, JobNotFound
from shared.domain.identity import BatchId, JobId
from shared.domain.jobs import Job
from shared.storage.transactions import Transaction


async def visible_job(transaction: Transaction, caller: Caller, job_id: JobId) -> Job:
    """Return a job that the caller may see.

    Raises:
        JobNotFound: There is none for this caller.
    """
    job = await transaction.jobs.get(job_id)
    if job is None or not caller.sees(job.owner):
        raise JobNotFound(job_id)
    return job


async def visible_batch(transaction: Transaction, caller: Caller, batch_id: BatchId) -> Batch:
    """Return a batch that the caller may see.

    Raises:
        BatchNotFound: There is none for this caller.
    """
    batch = await transaction.batches.get(batch_id)
    if batch is None or not caller.sees(batch.owner):
        raise BatchNotFound(batch_id)
    return batch
