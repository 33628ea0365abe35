"""Ends the leases that nobody will end any more.

Who is authoritative: Postgres. A lease stands until its row is removed there, in the same transaction that
writes how its attempt ended and what follows. Until then a heartbeat with its token extends it, however late
it comes; afterwards nothing under that token changes anything. All times are the database's, so no reaper's
clock matters, and any number of reapers may run: each takes rows that no other holds.

What ends a lease here, in the order in which it is asked:

- A cancel was not answered within the grace period: CANCELLED, marked as forced.
- No heartbeat for one and a half lease times: LOST, which is counted apart from failures; GIVEN_BACK, which
  costs nothing, if the executor never said a word about it, as the lease may never have arrived.
- Time-out and grace are over, whatever heartbeats say: TIMED_OUT.

With a cancel requested, each of these ends is CANCELLED.

What is promised when parts fail: time in which no worker wrote a pulse (workers down, database paused) was
nobody's silence. The first pulse afterwards gives that time back to every lease, and nothing is ended without
a fresh pulse. If Redis is away, watchers and dispatchers learn of the end by their polls.
"""

from __future__ import annotations

import asyncio
import random

import structlog

from shared.catalog.catalog import Catalog
from shared.domain.attempts import AttemptEnd, AttemptOutcome, decide, effective
from shared.domain.jobs import JobError
from shared.domain.leases import PULSE_TOLERANCE
from shared.domain.retries import EXECUTOR_LOST, TIMEOUT
from shared.runtime.loops import Uniform
from shared.storage.attempts import OverdueAttempt
from shared.storage.state_changes import Ending
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps

log = structlog.get_logger(__name__)

ATTEMPTS_PER_STEP_MAX = 200
"""Attempts that one transaction ends: some 50 ms of locks; a dead executor's leases take a step or two."""


class LeaseReaper:
    """Takes the place of an executor that will not report."""

    def __init__(
        self,
        transactions: Transactions,
        wake_ups: WakeUps,
        catalog: Catalog,
        *,
        wake_dispatcher: asyncio.Event,
        uniform: Uniform = random.random,
    ) -> None:
        self._transactions = transactions
        self._wake_ups = wake_ups
        self._catalog = catalog
        self._wake_dispatcher = wake_dispatcher
        self._uniform = uniform

    async def step(self) -> bool:
        """End one batch of overdue attempts; return True if the batch was full."""
        async with self._transactions.begin() as transaction:
            overdue = await transaction.attempts.lock_overdue(
                pulse_age=PULSE_TOLERANCE, limit=ATTEMPTS_PER_STEP_MAX
            )
            endings = [self._ending(each) for each in overdue]
            ended = await transaction.states.end_attempts(endings)
        for each in endings:
            log.info(
                "attempt.reaped",
                job_id=str(each.lease.job_id),
                outcome=each.end.outcome,
                next=type(each.decision).__name__,
            )
        if ended:
            self._wake_dispatcher.set()
            await self._wake_ups.jobs_changed(ended)
        return len(overdue) == ATTEMPTS_PER_STEP_MAX

    def _ending(self, overdue: OverdueAttempt) -> Ending:
        held = overdue.held
        end = effective(_end(overdue), held.standing)
        policy = self._catalog.retry_policy_of(held.job_type)
        decision = decide(end, held.standing, policy, uniform=self._uniform())
        return Ending(held.lease, end, decision)


def _end(overdue: OverdueAttempt) -> AttemptEnd:
    if overdue.cancel_ignored:
        return AttemptEnd(AttemptOutcome.CANCELLED, forced=True)
    if overdue.silent and not overdue.held.accepted:
        return AttemptEnd(AttemptOutcome.GIVEN_BACK)
    if overdue.silent:
        return AttemptEnd(AttemptOutcome.LOST, JobError(EXECUTOR_LOST, "the executor was not heard any more"))
    return AttemptEnd(AttemptOutcome.TIMED_OUT, JobError(TIMEOUT, "the attempt ran out of time"), forced=True)
