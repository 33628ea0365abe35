"""Tries failed items of a batch again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from job_api.operations.caller import Caller
from shared.catalog.catalog import Catalog
from shared.domain.batches import Batch
from shared.domain.identity import BatchId
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps


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
    """Makes a new job under the number of each failed item; the old ones stay as they are."""

    def __init__(
        self,
        transactions: Transactions,
        catalog: Catalog,
        wake_ups: WakeUps,
        *,
        new_id: Callable[[], UUID],
        wake_dispatcher: asyncio.Event,
    ) -> None:
        self._transactions = transactions
        self._catalog = catalog
        self._wake_ups = wake_ups
        self._new_id = new_id
        self._wake_dispatcher = wake_dispatcher

    async def __call__(self, caller: Caller, command: RetryBatchItemsCommand) -> ItemsRetried:
        """Try the items again.

        Raises:
            BatchNotFound: There is none for this caller.
            BatchStateConflict: The batch's state, or an item's, does not allow it, or an item's input can't
                be had or used any more; no item is tried again.
            PlatformUnavailable: They may or may not be tried again; the batch tells.
        """
        raise NotImplementedError
