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
from shared.storage.idempotency import Binding, IdempotencyKey, KeyClaim
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

    async def bound_job(
        self, transaction: Transaction, key: IdempotencyKey | None, fingerprint: bytes, job_id: JobId
    ) -> JobId:
        """Return the job that a call stands for: the one to be made, unless its key is bound already.

        Raises:
            IdempotencyKeyReused: The key stands for something else.
        """
        if key is None:
            return job_id
        binding = await self._binding(transaction, KeyClaim(key, fingerprint, job_id))
        return _same(binding, binding.job_id)

    async def bound_batch(
        self, transaction: Transaction, key: IdempotencyKey | None, fingerprint: bytes, batch_id: BatchId
    ) -> BatchId:
        """Do for a batch what `bound_job` does for a job."""
        if key is None:
            return batch_id
        binding = await self._binding(transaction, KeyClaim(key, fingerprint, None, batch_id))
        return _same(binding, binding.batch_id)

    async def _binding(self, transaction: Transaction, claim: KeyClaim) -> Binding:
        binding = (await transaction.idempotency.claim([claim], kept_for=self.keys_kept_for))[claim.key]
        if binding.fingerprint != claim.fingerprint:
            raise IdempotencyKeyReused(binding.job_id, binding.batch_id)
        return binding


def _same(binding: Binding, made: Made | None) -> Made:
    """Return what a key stands for, if it is of the kind that the call makes."""
    if made is None:
        raise IdempotencyKeyReused(binding.job_id, binding.batch_id)
    return made
