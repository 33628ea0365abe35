"""Tries failed items of a batch again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import structlog

from job_api.operations.caller import Caller
from job_api.operations.owner_quotas import NO_QUOTAS, OwnerQuotas
from job_api.operations.reruns import Asking, rerun
from job_api.operations.visibility import visible_batch
from shared.catalog.catalog import Catalog
from shared.catalog.definition import JobDefinition
from shared.domain.audit import AuditAction
from shared.domain.batches import BATCH_TRANSITIONS, OPEN_STATES, Batch, BatchChange
from shared.domain.errors import BatchStateConflict
from shared.domain.identity import BatchId, JobId
from shared.domain.jobs import JobState
from shared.storage.audit import AuditEntry
from shared.storage.batch_changes import EndedItem
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
        traceparent: The call's trace context; empty if it came without one.
    """

    batch_id: BatchId
    items: frozenset[int] = frozenset()
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class ItemsRetried:
    """The batch as it is now, and how many items are tried again."""

    batch: Batch
    count: int


class RetryBatchItems:
    """Makes a new job under the number of each failed item; the old ones stay as they are.

    Of two calls for one item the second finds the new job there, which has not failed: so no item runs twice.
    """

    def __init__(
        self,
        transactions: Transactions,
        catalog: Catalog,
        wake_ups: WakeUps,
        quotas: OwnerQuotas = NO_QUOTAS,
        *,
        new_id: Callable[[], UUID],
        wake_dispatcher: asyncio.Event,
    ) -> None:
        self._transactions = transactions
        self._catalog = catalog
        self._wake_ups = wake_ups
        self._quotas = quotas
        self._new_id = new_id
        self._wake_dispatcher = wake_dispatcher

    async def __call__(self, caller: Caller, command: RetryBatchItemsCommand) -> ItemsRetried:
        """Try the items again; where all that failed are meant, there may be none while others are open.

        Raises:
            BatchNotFound: There is none for this caller.
            BatchStateConflict: The batch's state, or an item's, does not allow it, or an item's input can't
                be had or used any more; no item is tried again.
            TooManyJobs: The owner may not have so many active jobs.
            QuotaExceeded: The owner's day or month has no room for so many.
            PlatformUnavailable: They may or may not be tried again; the batch tells.
        """
        batch_id, asking = command.batch_id, Asking(caller.subject, command.traceparent)
        async with self._transactions.begin() as transaction:
            await visible_batch(transaction, caller, batch_id)
            await transaction.batch_changes.be_alone(batch_id)
            items = await transaction.batch_changes.lock_items(batch_id, command.items)
            batch = await visible_batch(transaction, caller, batch_id)
            _refuse(batch, items, command.items)
            if items:
                await self._run_again(transaction, batch, items, asking)
                await transaction.audit.add(
                    [AuditEntry(caller.subject, batch.owner, AuditAction.BATCH_RETRY, batch_id)]
                )
                batch = await visible_batch(transaction, caller, batch_id)
        if items:
            log.info("batch.items_retried", batch_id=str(batch_id), items=len(items))
            self._wake_dispatcher.set()
            await self._wake_ups.batches_changed([batch_id])
        return ItemsRetried(batch, len(items))

    async def _run_again(
        self, transaction: Transaction, batch: Batch, items: Sequence[EndedItem], asking: Asking
    ) -> None:
        definition = self._definition(batch, items)
        await self._quotas.require(transaction, batch.owner, len(items))
        planned = {each.number: self._rerun(batch, each, definition, asking) for each in items}
        made = await _made(transaction, list(planned.values()))
        for number, each in planned.items():
            if each.job_id not in made:
                raise BatchStateConflict(batch.batch_id, f"the input of item {number} has expired")
        job_ids = {number: each.job_id for number, each in planned.items()}
        if not await transaction.batch_changes.retry(batch.batch_id, job_ids):
            raise BatchStateConflict(batch.batch_id)

    def _definition(self, batch: Batch, items: Sequence[EndedItem]) -> JobDefinition:
        definition = self._catalog.definitions.get(batch.job_type)
        if definition is None:
            raise BatchStateConflict(batch.batch_id, "its job type is gone")
        if any(each.input_schema_version != definition.input_schema_version for each in items):
            raise BatchStateConflict(batch.batch_id, "its job type takes another version of inputs now")
        return definition

    def _rerun(self, batch: Batch, item: EndedItem, definition: JobDefinition, asking: Asking) -> Rerun:
        again = rerun(
            item.job_id,
            job_id=JobId(self._new_id()),
            definition=definition,
            priority=item.priority,
            asking=asking,
        )
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
