"""Tries failed items of a batch again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from job_api.operations.caller import Caller
from job_api.operations.creating import Creating
from job_api.operations.reruns import Asking, rerun, todays_definition
from job_api.operations.visibility import visible_batch
from shared.catalog import json_text
from shared.catalog.catalog import Catalog
from shared.catalog.definition import JobDefinition
from shared.domain.audit import AuditAction
from shared.domain.batches import BATCH_TRANSITIONS, OPEN_STATES, Batch, BatchChange
from shared.domain.errors import BatchStateConflict
from shared.domain.identity import BatchId, JobId
from shared.domain.jobs import JobState
from shared.storage.audit import AuditEntry
from shared.storage.batch_changes import EndedItem
from shared.storage.idempotency import IdempotencyKey
from shared.storage.reruns import Rerun
from shared.storage.transactions import Transaction, Transactions
from shared.streams.wake_ups import WakeUps

log = structlog.get_logger(__name__)

JOBS_PER_STATEMENT_MAX = 1_000
"""As for new batches."""


@dataclass(frozen=True, slots=True)
class RetryBatchItemsCommand:
    """Which items; an empty set stands for all that failed.

    Attributes:
        key: A call that is repeated with it does nothing again; None for a call of its own.
        traceparent: The call's trace context; empty if it came without one.
    """

    batch_id: BatchId
    items: frozenset[int] = frozenset()
    key: str | None = None
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class ItemsRetried:
    """The batch as it is now, and how many items this call tries again.

    Attributes:
        replayed: An earlier call with the same key has done it, whatever has become of the items since.
    """

    batch: Batch
    count: int
    replayed: bool = False


class RetryBatchItems:
    """Makes a new job under the number of each failed item; the old ones stay as they are.

    Of two calls for one item the second finds the new job there, which has not failed: so no item runs twice.
    Once that one has failed too, only a key tells a call that is repeated from a new one. It is bound to the
    first of the new jobs, and decides races as it does for creations.
    """

    def __init__(
        self, transactions: Transactions, catalog: Catalog, wake_ups: WakeUps, creating: Creating
    ) -> None:
        self._transactions = transactions
        self._creating = creating
        self._catalog = catalog
        self._wake_ups = wake_ups

    async def __call__(self, caller: Caller, command: RetryBatchItemsCommand) -> ItemsRetried:
        """Try the items again; where all that failed are meant, there may be none while others are open.

        Raises:
            BatchNotFound: There is none for this caller.
            BatchStateConflict: The batch's state, or an item's, does not allow it, or an item's input can't
                be had or used any more; no item is tried again.
            IdempotencyKeyReused: The key stands for something else.
            TooManyJobs: The owner may not have so many active jobs.
            QuotaExceeded: The owner's day or month has no room for so many.
            PlatformUnavailable: They may or may not be tried again; calling again with the same key is safe.
        """
        batch_id, asking = command.batch_id, Asking(caller.subject, command.traceparent)
        async with self._transactions.begin() as transaction:
            batch, job_ids = await visible_batch(transaction, caller, batch_id), list[JobId]()
            first = JobId(self._creating.new_id())
            key = IdempotencyKey.of(batch.owner, batch.job_type, command.key)
            if await self._creating.bound_job(transaction, key, _fingerprint(command), first) != first:
                return ItemsRetried(await visible_batch(transaction, caller, batch_id), 0, replayed=True)
            await transaction.batch_changes.be_alone(batch_id)
            items = await transaction.batch_changes.lock_items(batch_id, command.items)
            batch = await visible_batch(transaction, caller, batch_id)
            _refuse(batch, items, command.items)
            if items:
                job_ids = await self._run_again(transaction, batch, items, asking, first)
                await transaction.audit.add(
                    [AuditEntry(caller.subject, batch.owner, AuditAction.BATCH_RETRY, batch_id)]
                )
                batch = await visible_batch(transaction, caller, batch_id)
            elif key is not None:
                await transaction.idempotency.release([key])
        if items:
            log.info("batch.items_retried", batch_id=str(batch_id), items=len(items))
            self._creating.wake_dispatcher.set()
            await self._wake_ups.jobs_changed(job_ids)  # as those of a new batch
            await self._wake_ups.batches_changed([batch_id])
        return ItemsRetried(batch, len(items))

    async def _run_again(
        self,
        transaction: Transaction,
        batch: Batch,
        items: Sequence[EndedItem],
        asking: Asking,
        first: JobId,
    ) -> list[JobId]:
        """Put new jobs under the numbers of the items, and return them."""
        refused = partial(BatchStateConflict, batch.batch_id)
        versions = {each.input_schema_version for each in items}
        definition = todays_definition(self._catalog, batch.job_type, versions, refused=refused)
        await self._creating.quotas.require(transaction, batch.owner, len(items))
        job_ids = [first, *(JobId(self._creating.new_id()) for _ in items[1:])]
        planned = {
            item.number: _rerun(batch, item, job_id, definition, asking)
            for item, job_id in zip(items, job_ids, strict=True)
        }
        made = await _made(transaction, list(planned.values()))
        for number, each in planned.items():
            if each.job_id not in made:
                raise BatchStateConflict(batch.batch_id, f"the input of item {number} has expired")
        new = {number: each.job_id for number, each in planned.items()}
        if not await transaction.batch_changes.retry(batch.batch_id, new):
            raise BatchStateConflict(batch.batch_id)
        return job_ids


def _rerun(batch: Batch, item: EndedItem, job_id: JobId, definition: JobDefinition, asking: Asking) -> Rerun:
    again = rerun(item.job_id, job_id=job_id, definition=definition, priority=item.priority, asking=asking)
    return replace(again, batch_id=batch.batch_id, batch_item=item.number)


def _refuse(batch: Batch, items: Sequence[EndedItem], wanted: frozenset[int]) -> None:
    """Refuse what the batch's state or an item's does not allow.

    Raises:
        BatchStateConflict: See `RetryBatchItems`.
    """
    if batch.state in OPEN_STATES:
        if batch.cancel_request_time is not None:
            raise BatchStateConflict(batch.batch_id, "it was cancelled")
    elif batch.state not in BATCH_TRANSITIONS[BatchChange.RETRIED].sources:
        raise BatchStateConflict(batch.batch_id, f"it is {batch.state}")
    found: Mapping[int, JobState] = {each.number: each.state for each in items}
    for number in sorted(wanted):
        if number not in found:
            raise BatchStateConflict(batch.batch_id, f"it has no item {number}")
        if found[number] is not JobState.FAILED:
            raise BatchStateConflict(batch.batch_id, f"item {number} is {found[number]}, not FAILED")


async def _made(transaction: Transaction, reruns: Sequence[Rerun]) -> set[JobId]:
    """Run jobs again, also those that were run again outside of the batch."""
    made = set[JobId]()
    for place in range(0, len(reruns), JOBS_PER_STATEMENT_MAX):
        part = reruns[place : place + JOBS_PER_STATEMENT_MAX]
        made |= await transaction.reruns.create(part, also_again=True, action=None)
    return made


def _fingerprint(command: RetryBatchItemsCommand) -> bytes:
    """Hash what was asked for; the content of no other call looks like it."""
    return json_text.digest({"retry_of_batch": str(command.batch_id), "items": sorted(command.items)})
