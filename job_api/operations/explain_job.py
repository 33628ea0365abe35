"""Says why a job is not running."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from job_api.operations import wait_reasons
from job_api.operations.caller import Caller
from job_api.operations.visibility import visible_job
from job_api.operations.wait_reasons import WaitReason
from shared.domain.errors import PlatformUnavailable
from shared.domain.events import OutboxState
from shared.domain.identity import JobId, JobType
from shared.domain.leases import TypeLimits
from shared.domain.pauses import Pausable, Pause
from shared.domain.queues import more_urgent
from shared.storage.explanations import AbleExecutors, Standing, UsedLimits, WaitingRow
from shared.storage.jobs_ahead import Ahead
from shared.storage.transactions import Transaction, Transactions
from shared.streams.lease_streams import LeaseStreams


@dataclass(frozen=True, slots=True)
class _Wait:
    """What is known of a job that waits."""

    standing: Standing
    dispatch: WaitingRow
    executors: AbleExecutors
    pauses: Mapping[Pausable, Pause]
    used: UsedLimits | None
    ahead: Ahead


class ExplainJob:
    """What is in Postgres is counted; which executors are connected is what their services tell in Redis."""

    def __init__(
        self, transactions: Transactions, streams: LeaseStreams, limits: Mapping[JobType, TypeLimits]
    ) -> None:
        self._transactions = transactions
        self._streams = streams
        self._limits = limits

    async def __call__(self, caller: Caller, job_id: JobId) -> Sequence[WaitReason]:
        """Return at least one reason; the one that must go first stands first.

        Raises:
            JobNotFound: There is none for this caller.
        """
        async with self._transactions.begin() as transaction:
            await visible_job(transaction, caller, job_id)
            standing = await transaction.explanations.standing(job_id)
            if standing.running is not None:
                return [wait_reasons.of_running(standing, standing.running)]
            if standing.dispatch is None:
                return [wait_reasons.of_ended(standing)]
            wait = await self._wait(transaction, job_id, standing, standing.dispatch)
        return [*await self._reasons(wait, inside=caller.sees_all)]

    async def _wait(
        self, transaction: Transaction, job_id: JobId, standing: Standing, dispatch: WaitingRow
    ) -> _Wait:
        used, ahead = None, Ahead(0, False)
        limits = self._limits.get(standing.job_type)
        if limits is not None:
            used = await transaction.explanations.used(limits, standing.owner)
        if standing.in_line:
            ahead = await transaction.jobs_ahead.count(standing, dispatch, more_urgent(standing.stream))
        pauses = await transaction.pauses.all()
        executors = await transaction.explanations.executors(job_id)
        return _Wait(standing, dispatch, executors, pauses, used, ahead)

    async def _reasons(self, wait: _Wait, *, inside: bool) -> Sequence[WaitReason]:
        reasons = [*_lasting(wait, inside=inside)]
        try:
            depth = (await self._streams.depths([wait.standing.stream]))[wait.standing.stream]
        except PlatformUnavailable:
            demand, connected = None, True
        else:
            demand, connected = depth.demand or 0, depth.demand is not None or not depth.usable
        reasons += wait_reasons.of_executors(wait.standing, wait.executors, connected=connected)
        if wait.used is not None and wait.standing.due:
            reasons += wait_reasons.of_limits(wait.used, inside=inside)
        if wait.standing.in_line and (wait.ahead.count or not reasons):
            reasons.append(wait_reasons.of_others(wait.ahead, demand=demand))
        return reasons


def _lasting(wait: _Wait, *, inside: bool) -> Iterator[WaitReason]:
    """Yield what keeps the job from being handed out, whoever could do it."""
    if wait.dispatch.state is OutboxState.DEAD:
        yield wait_reasons.of_dead(wait.dispatch, inside=inside)
    yield from wait_reasons.of_time(wait.standing)
    yield from wait_reasons.of_pauses(wait.standing, wait.pauses)
