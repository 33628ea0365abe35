"""Watches one batch."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from job_api.operations import opaque, paging
from job_api.operations.batch_watching import BatchSubscription, BatchUpdate
from job_api.operations.caller import Caller
from job_api.operations.subscriptions import Feed
from job_api.operations.visibility import visible_batch
from shared.domain.batches import Batch
from shared.domain.errors import FieldViolation, InvalidInput
from shared.domain.identity import BatchId
from shared.storage.transactions import Transactions


@dataclass(frozen=True, slots=True)
class WatchBatchCommand:
    """What to watch, and from where on; the cursor, where there is one, goes before the number."""

    batch_id: BatchId
    after_event: int = 0
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class WatchedBatch:
    """An update, and the cursor that stands for everything up to it."""

    update: BatchUpdate
    cursor: str


class WatchBatch:
    """A stream of updates until the batch has settled; it ends with an `EndReason`.

    A batch whose items are tried again after it settled goes on: a new watch from the last cursor has what
    follows.
    """

    def __init__(
        self, transactions: Transactions, feed: Feed[BatchSubscription], *, keep_alive: timedelta
    ) -> None:
        self._transactions = transactions
        self._feed = feed
        self._keep_alive_seconds = keep_alive.total_seconds()

    async def __call__(
        self, caller: Caller, command: WatchBatchCommand
    ) -> AsyncGenerator[WatchedBatch, None]:
        """Yield what happens to a batch.

        Raises:
            BatchNotFound: There is none for this caller.
            InvalidInput: The cursor is not one of this batch's, or the batch has no such event yet.
        """
        async with self._transactions.begin() as transaction:
            batch = await visible_batch(transaction, caller, command.batch_id)
        place = _place(command.batch_id)
        subscription = BatchSubscription(command.batch_id, _start(batch, command))
        watch = subscription.follow(self._feed, keep_alive_seconds=self._keep_alive_seconds)
        async with aclosing(watch) as updates:
            async for sent in updates:
                yield WatchedBatch(sent.update, opaque.seal(place, sent.position))


def _place(batch_id: BatchId) -> list[str]:
    return ["watch-batch", str(batch_id)]


def _start(batch: Batch, command: WatchBatchCommand) -> int:
    if command.cursor:
        return _position(batch, command.cursor)
    if command.after_event > batch.last_event_number:
        raise InvalidInput(
            [FieldViolation("after_event_number", "the batch has no event of this number yet")]
        )
    return command.after_event


def _position(batch: Batch, cursor: str) -> int:
    try:
        number = paging.ordinal(opaque.unseal(_place(batch.batch_id), cursor))
        if number > batch.last_event_number:
            raise ValueError
    except ValueError:
        raise InvalidInput([FieldViolation("cursor", "is not a cursor of this batch's watches")]) from None
    return number
