"""Runs a job again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import structlog

from job_api.operations.caller import Caller
from job_api.operations.creating import Creating
from job_api.operations.job_creation import Creation
from job_api.operations.reruns import Asking, rerun, todays_definition
from job_api.operations.visibility import visible_job
from shared.catalog import json_text
from shared.catalog.catalog import Catalog
from shared.domain.errors import JobNotFound, JobNotRetryable
from shared.domain.identity import JobId
from shared.domain.jobs import RETRYABLE_STATES, TERMINAL_STATES, Job
from shared.storage.idempotency import IdempotencyKey
from shared.storage.transactions import Transaction, Transactions

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RetryCommand:
    """A wish to run a job again; `CreateJobCommand` tells of the key and the trace context."""

    job_id: JobId
    key: str | None = None
    traceparent: str = ""


class RetryJob:
    """Makes a new job with the old one's input, owner and wishes; the old one stays as it is.

    A key decides races as it does for creations: it is the owner's, and one call binds it to its new job.
    """

    def __init__(self, transactions: Transactions, catalog: Catalog, creating: Creating) -> None:
        self._transactions = transactions
        self._catalog = catalog
        self._creating = creating

    async def __call__(self, caller: Caller, command: RetryCommand) -> Creation:
        """Run the job again, or find the job that an earlier call with the same key made.

        Raises:
            JobNotFound: There is none for this caller.
            JobNotRetryable: It has not ended, or succeeded, or its input can't be had or used any more.
            IdempotencyKeyReused: The key stands for something else.
            TooManyJobs: The owner has as many active jobs as allowed.
            QuotaExceeded: The owner's day or month is used up.
            PlatformUnavailable: The new job may or may not exist; calling again with the same key tells.
        """
        job_id = JobId(self._creating.new_id())
        async with self._transactions.begin() as transaction:
            origin = await visible_job(transaction, caller, command.job_id)
            key = IdempotencyKey.of(origin.owner, origin.job_type, command.key)
            bound = await self._creating.bound_job(transaction, key, _fingerprint(origin), job_id)
            if bound == job_id:
                await self._create(transaction, origin, job_id, Asking(caller.subject, command.traceparent))
            job = (await transaction.jobs.get_many([bound]))[bound]
        if bound == job_id:
            self._creating.wake_dispatcher.set()
            log.info("job.retried", job_id=str(job_id), origin_job_id=str(origin.job_id), owner=origin.owner)
        return Creation(job, replayed=bound != job_id)

    async def _create(self, transaction: Transaction, origin: Job, job_id: JobId, asking: Asking) -> None:
        locked = await transaction.jobs.lock(origin.job_id)
        if locked is None:
            raise JobNotFound(origin.job_id)
        if locked.state not in RETRYABLE_STATES:
            ended = locked.state in TERMINAL_STATES
            raise JobNotRetryable(origin.job_id, "it succeeded" if ended else "it has not ended")
        refused = partial(JobNotRetryable, origin.job_id)
        definition = todays_definition(
            self._catalog, origin.job_type, {origin.input_schema_version}, refused=refused
        )
        await self._creating.quotas.require(transaction, origin.owner, 1)
        again = rerun(
            origin.job_id, job_id=job_id, definition=definition, priority=origin.priority, asking=asking
        )
        if not await transaction.reruns.create([again], also_again=True):
            raise JobNotRetryable(origin.job_id, "its input has expired")


def _fingerprint(origin: Job) -> bytes:
    """Hash what was asked for; no creation's content looks like it."""
    return json_text.digest({"retry_of": str(origin.job_id)})
