"""Reads a job for a caller: another owner's does not exist."""

from __future__ import annotations

from job_api.operations.caller import Caller
from shared.domain.errors import JobNotFound
from shared.domain.identity import JobId
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
