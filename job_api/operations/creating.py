"""What operations that make jobs have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from job_api.operations.owner_quotas import NO_QUOTAS, OwnerQuotas
from shared.domain.errors import IdempotencyKeyReused
from shared.domain.identity import BatchId, JobId
from shared.storage.idempotency import Binding, KeyClaim
from shared.storage.transactions import Transaction

Made = TypeVar("Made", JobId, BatchId)


@dataclass(frozen=True, slots=True, kw_only=True)
class Creating:
    """How a deployment makes jobs.

    Attributes:
        keys_kept_for: Idempotency keys, at least.
        wake_dispatcher: To be set once new jobs are committed.
    """

    new_id: Callable[[], UUID]
    keys_kept_for: timedelta
    wake_dispatcher: asyncio.Event
    quotas: OwnerQuotas = NO_QUOTAS

    async def bound(
        self, transaction: Transaction, claim: KeyClaim, made: Callable[[Binding], Made | None]
    ) -> Made:
        """Return what a call stands for: what it is about to make, unless its key is bound already.

        Args:
            made: Takes a job or a batch, whichever the call makes, out of a binding.

        Raises:
            IdempotencyKeyReused: The key stands for something else.
        """
        binding = (await transaction.idempotency.claim([claim], kept_for=self.keys_kept_for))[claim.key]
        found = made(binding)
        if found is None or binding.fingerprint != claim.fingerprint:
            raise IdempotencyKeyReused(binding.job_id, binding.batch_id)
        return found
