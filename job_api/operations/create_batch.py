"""Creates a batch: all of its jobs, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

import structlog

from job_api.operations.batch_request import CheckedBatch, CreateBatchCommand, at_item, check_batch
from job_api.operations.caller import Caller
from job_api.operations.creating import Creating
from job_api.operations.job_creation import Item, missing_uploads, new_job
from job_api.operations.job_request import BYTES_ON_THE_LOOP_MAX, VIOLATIONS_MAX, JobRequests
from shared.domain.audit import AuditAction
from shared.domain.batches import Batch
from shared.domain.errors import BatonError, FieldViolation, InvalidInput
from shared.domain.identity import BatchId, JobId, Owner
from shared.storage.audit import AuditEntry
from shared.storage.batch_changes import NewBatch
from shared.storage.idempotency import IdempotencyKey
from shared.storage.transactions import Transaction, Transactions
from shared.streams.wake_ups import WakeUps

__all__ = ["BatchCreation", "CreateBatch", "CreateBatchCommand"]

log = structlog.get_logger(__name__)

_ITEMS_ON_THE_LOOP_MAX = 100
"""More are checked in a thread, as is more input than `BYTES_ON_THE_LOOP_MAX`."""

JOBS_PER_STATEMENT_MAX = 1_000
"""Some 100 ms, far from the longest time that a statement may take; all are in one transaction."""


@dataclass(frozen=True, slots=True)
class BatchCreation:
    """The batch; replayed if an earlier call with the same key created it."""

    batch: Batch
    replayed: bool


class CreateBatch:
    """Makes batch, jobs, inputs, key, events and dispatches durable together, or none of them.

    A key decides races as it does for jobs, with which batches share their keys: one call binds it.
    """

    def __init__(
        self, transactions: Transactions, requests: JobRequests, creating: Creating, wake_ups: WakeUps
    ) -> None:
        self._transactions = transactions
        self._requests = requests
        self._creating = creating
        self._wake_ups = wake_ups

    async def __call__(self, caller: Caller, command: CreateBatchCommand) -> BatchCreation:
        """Create the batch, or find the one that an earlier call with the same key created.

        Raises:
            InvalidInput: Inputs do not fit, or refer to documents that are not there; `inputs[17].name` is a
                field at fault, at most 50 of them are named.
            UnknownJobType: No definition has that name.
            PayloadTooLarge: An input is over its limit; `inputs[17]` names it.
            IdempotencyKeyReused: The key stands for something else.
            TooManyJobs: The owner may not have so many active jobs.
            QuotaExceeded: The owner's day or month has no room for so many.
            PermissionDenied: It is for another owner, and the caller may not act for others.
            PlatformUnavailable: The batch may or may not exist; calling again with the same key tells.
        """
        checked = await self._checked(command, caller.acting_for(command.owner))
        batch_id, job_ids = BatchId(self._creating.new_id()), list[JobId]()
        async with self._transactions.begin() as transaction:
            key = IdempotencyKey.of(checked.owner, checked.job_type, checked.command.key)
            bound = await self._creating.bound_batch(transaction, key, checked.fingerprint, batch_id)
            if bound == batch_id:
                job_ids = await self._create(transaction, checked, batch_id, caller.subject)
            batch = (await transaction.batches.get_many([bound]))[bound]
        if bound == batch_id:
            self._creating.wake_dispatcher.set()
            log.info(
                "batch.created",
                batch_id=str(batch_id),
                job_type=batch.job_type,
                owner=batch.owner,
                size=batch.size,
            )
            # Many take long to be committed: live views would look for them among later ones.
            await self._wake_ups.jobs_changed(job_ids)
        return BatchCreation(batch, replayed=bound != batch_id)

    async def _checked(self, command: CreateBatchCommand, owner: Owner) -> CheckedBatch:
        few = len(command.inputs) <= _ITEMS_ON_THE_LOOP_MAX
        if few and sum(map(len, command.inputs)) <= BYTES_ON_THE_LOOP_MAX:
            return check_batch(self._requests, command, owner)
        return await asyncio.to_thread(check_batch, self._requests, command, owner)

    async def _create(
        self, transaction: Transaction, checked: CheckedBatch, batch_id: BatchId, subject: Owner
    ) -> list[JobId]:
        items = [Item(JobId(self._creating.new_id()), subject, each) for each in checked.items]
        missing = await missing_uploads(transaction, dict(enumerate(items)))
        if missing:
            raise InvalidInput(list(_violations(missing)))
        await self._creating.quotas.require(transaction, checked.owner, len(items))
        for first in range(0, len(items), JOBS_PER_STATEMENT_MAX):
            jobs = [
                replace(new_job(each), batch_id=batch_id, batch_item=number)
                for number, each in enumerate(items[first : first + JOBS_PER_STATEMENT_MAX], first + 1)
            ]
            await transaction.creation.create_jobs(jobs)
        job_ids = [each.job_id for each in items]
        batch = NewBatch(
            batch_id=batch_id,
            owner=checked.owner,
            created_by=subject,
            job_type=checked.job_type,
            title=checked.command.title,
            target=checked.command.target,
            labels=checked.command.labels,
            job_ids=job_ids,
        )
        await transaction.batch_changes.create(batch)
        await transaction.audit.add([AuditEntry(subject, checked.owner, AuditAction.BATCH_CREATE, batch_id)])
        return job_ids


def _violations(faults: Mapping[int, BatonError]) -> Iterator[FieldViolation]:
    for index, fault in islice(faults.items(), VIOLATIONS_MAX):
        if not isinstance(fault, InvalidInput):
            raise fault
        yield from (at_item(index, each) for each in fault.violations)
