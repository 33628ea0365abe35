"""Creates a batch: all of its jobs, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from job_api.operations.caller import Caller
from job_api.operations.job_request import JobRequests, Overrides
from shared.domain.batches import Batch
from shared.domain.identity import Owner
from shared.domain.jobs import Target
from shared.storage.transactions import Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateBatchCommand:
    """One batch as it was asked for; single fields are in their ranges.

    Attributes:
        inputs: JSON texts as they were sent, one an item; at least one.
        owner: None where it is the caller.
        traceparent: The call's trace context; empty if it came without one.
    """

    job_type: str
    inputs: Sequence[bytes]
    key: str | None = None
    title: str = ""
    target: Target | None = None
    overrides: Overrides = field(default_factory=Overrides)
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class BatchCreation:
    """The batch; replayed if an earlier call with the same key created it."""

    batch: Batch
    replayed: bool


class CreateBatch:
    """Makes batch, jobs, inputs, key, events and dispatches durable together, or none of them."""

    def __init__(
        self,
        transactions: Transactions,
        requests: JobRequests,
        *,
        new_id: Callable[[], UUID],
        keys_kept_for: timedelta,
        wake_dispatcher: asyncio.Event,
    ) -> None:
        self._transactions = transactions
        self._requests = requests
        self._new_id = new_id
        self._keys_kept_for = keys_kept_for
        self._wake_dispatcher = wake_dispatcher

    async def __call__(self, caller: Caller, command: CreateBatchCommand) -> BatchCreation:
        """Create the batch, or find the one that an earlier call with the same key created.

        Raises:
            InvalidInput: Inputs do not fit, or refer to documents that are not there; `inputs[17].name` is a
                field at fault, at most 50 of them are named.
            UnknownJobType: No definition has that name.
            PayloadTooLarge: An input is over its limit; `inputs[17]` names it.
            IdempotencyKeyReused: The key stands for something else.
            PermissionDenied: It is for another owner, and the caller may not act for others.
            PlatformUnavailable: The batch may or may not exist; calling again with the same key tells.
        """
        raise NotImplementedError
