"""How an attempt ends, and what follows from that for its job: another attempt, or the job's end.

The model of the rules: a cancel that was requested wins over everything; an item of a cancelled batch has no
attempt after the one that runs; failures and time-outs count against `max_retries`; lost executors are
counted apart; a lease that was given back costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from shared.domain.jobs import JobChange, JobError
from shared.domain.retries import EXECUTOR_LOST, TIMEOUT, RetryClass, RetryPolicy, retry_class

GIVE_BACKS_FREE = 3
"""So many give-backs in a row are offered again at once; a job that nobody keeps then backs off."""


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    CANCELLED = "cancelled"
    GIVEN_BACK = "given_back"


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """An end without success, as it was reported or found.

    Attributes:
        retry_after: What the provider asked for; honoured up to the backoff's cap.
        permanent: The executor knows that trying again can't help.
        suspect: Its handler process died with others inside, so it runs alone next.
        refused: It is not offered to this incarnation again.
        forced: It was ended because a cancel or a time-out was ignored beyond the grace period.
    """

    outcome: AttemptOutcome
    error: JobError | None = None
    retry_after: timedelta | None = None
    permanent: bool = False
    suspect: bool = False
    refused: bool = False
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What a job has used up so far.

    Attributes:
        failures: Failed and timed-out attempts.
        internal_failures: Those among them that were the engine's own fault.
        losses: Attempts whose executor was lost.
        give_backs: Leases given back since the last one that was not.
        age: Since the job's creation, by the database's clock.
        skipping: Its batch was cancelled: the attempt may succeed, and is the last one in any case.
    """

    failures: int
    internal_failures: int
    losses: int
    give_backs: int
    age: timedelta
    cancel_requested: bool
    skipping: bool = False


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Another attempt follows, `delay` from the database's present time."""

    delay: timedelta
    standing: Standing


@dataclass(frozen=True, slots=True)
class Finish:
    """The job ends."""

    change: JobChange
    error: JobError | None
    standing: Standing


def effective(end: AttemptEnd, standing: Standing) -> AttemptEnd:
    """Return an end without success as it counts: with a cancel requested, every one is CANCELLED."""
    if standing.cancel_requested:
        return AttemptEnd(AttemptOutcome.CANCELLED, forced=end.forced)
    return end


def decide(end: AttemptEnd, standing: Standing, policy: RetryPolicy, *, uniform: float) -> TryAgain | Finish:
    """Decide what follows an attempt that ended without success.

    Args:
        end: How it ended, as it counts.
        standing: Before this end.
        uniform: A draw from [0, 1) for the jitter.
    """
    end = effective(end, standing)
    after = _counted(end, standing)
    if end.outcome is AttemptOutcome.CANCELLED or standing.skipping:
        return Finish(JobChange.CANCELLED, None, after)
    if policy.life_max is not None and standing.age > policy.life_max:
        return Finish(JobChange.FAILED, JobError(TIMEOUT, "the job lived longer than it may"), after)
    match end.outcome:
        case AttemptOutcome.GIVEN_BACK:
            excess = after.give_backs - GIVE_BACKS_FREE
            delay = policy.backoff.delay(excess, uniform=uniform) if excess > 0 else timedelta(0)
            return TryAgain(delay, after)
        case AttemptOutcome.LOST:
            return _after_loss(after, policy, uniform)
        case _:
            return _after_failure(end, after, policy, uniform)


def _counted(end: AttemptEnd, standing: Standing) -> Standing:
    match end.outcome:
        case AttemptOutcome.GIVEN_BACK:
            return replace(standing, give_backs=standing.give_backs + 1)
        case AttemptOutcome.LOST:
            return replace(standing, losses=standing.losses + 1, give_backs=0)
        case AttemptOutcome.FAILED | AttemptOutcome.TIMED_OUT:
            internal = end.error is not None and retry_class(end.error.code) is RetryClass.ONCE
            return replace(
                standing,
                failures=standing.failures + 1,
                internal_failures=standing.internal_failures + internal,
                give_backs=0,
            )
        case _:
            return replace(standing, give_backs=0)


def _after_loss(after: Standing, policy: RetryPolicy, uniform: float) -> TryAgain | Finish:
    if after.losses >= policy.losses_max:
        error = JobError(EXECUTOR_LOST, f"the executor was lost {after.losses} times")
        return Finish(JobChange.FAILED, error, after)
    return TryAgain(policy.backoff.delay(after.losses, uniform=uniform), after)


def _after_failure(
    end: AttemptEnd, after: Standing, policy: RetryPolicy, uniform: float
) -> TryAgain | Finish:
    error = end.error or JobError(TIMEOUT, "the attempt ran out of time")
    if end.permanent or after.failures > policy.max_retries or not _may_retry(error.code, after, policy):
        return Finish(JobChange.FAILED, error, after)
    delay = policy.backoff.delay(after.failures, uniform=uniform)
    if end.retry_after is not None:
        delay = max(delay, min(end.retry_after, policy.backoff.cap))
    return TryAgain(delay, after)


def _may_retry(code: str, after: Standing, policy: RetryPolicy) -> bool:
    match retry_class(code):
        case RetryClass.RETRY:
            return True
        case RetryClass.ONCE:
            return after.internal_failures <= 1
        case RetryClass.TIMEOUT:
            return policy.retry_timeouts
        case RetryClass.NEVER:
            return False
