"""Cancels jobs that were to start by a time and did not."""

from __future__ import annotations

import structlog

from shared.domain.jobs import JobError
from shared.domain.retries import START_BY_PASSED
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps

log = structlog.get_logger(__name__)

JOBS_PER_STEP_MAX = 500
"""Jobs that one transaction cancels: some 50 ms of locks."""


class StartBySweep:
    """No job starts too late, even if this is asleep: the claim asks for the time as well."""

    def __init__(self, transactions: Transactions, wake_ups: WakeUps) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups

    async def step(self) -> bool:
        """Cancel one batch of late jobs; return True if the batch was full."""
        error = JobError(START_BY_PASSED, "the job had not started by the time it was to start by")
        async with self._transactions.begin() as transaction:
            late = await transaction.dispatches.past_start_by(limit=JOBS_PER_STEP_MAX)
            cancelled = await transaction.states.cancel_waiting(late, past_start_by=True, error=error)
        if cancelled:
            log.info("jobs.start_by_passed", jobs=len(cancelled))
            await self._wake_ups.jobs_changed(cancelled)
        return len(cancelled) == JOBS_PER_STEP_MAX
