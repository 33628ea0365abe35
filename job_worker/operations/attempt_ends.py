"""From what was reported or found to how an attempt ended, and what follows for its job."""

from __future__ import annotations

import random
from typing import assert_never

from job_worker.operations.reports import End, Failure, GiveBack, GiveBackReason, ReportOutcome, Stopped
from shared.catalog.catalog import Catalog
from shared.domain.attempts import AttemptEnd, AttemptOutcome, Finish, TryAgain, decide, effective
from shared.domain.jobs import JobChange, JobError
from shared.domain.retries import EXECUTOR_LOST, TIMEOUT
from shared.storage.attempts import HeldAttempt
from shared.storage.state_changes import Ending


class AttemptEnds:
    """Decides with the catalog's promises and a draw for the jitter."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def decide(self, held: HeldAttempt, end: AttemptEnd) -> TryAgain | Finish:
        """Decide what follows; a cancel that was requested makes every end a cancelled one."""
        return decide(
            end, held.standing, self._catalog.retry_policy_of(held.job_type), uniform=random.random()
        )

    def given_back(self, held: HeldAttempt) -> Ending:
        """End an attempt that nobody works on, through no fault of its own."""
        end = effective(AttemptEnd(AttemptOutcome.GIVEN_BACK), held.standing)
        return Ending(held.lease, end, self.decide(held, end))


def end_of(reported: Failure | GiveBack | Stopped) -> AttemptEnd:
    """Read a report without output."""
    match reported:
        case Failure(error=error):
            outcome = AttemptOutcome.TIMED_OUT if error.code == TIMEOUT else AttemptOutcome.FAILED
            return AttemptEnd(outcome, error, retry_after=reported.retry_after, permanent=reported.permanent)
        case GiveBack():
            return _give_back_end(reported)
        case Stopped(killed=killed):
            # Without a cancel the executor stopped it for a reason of its own, so it costs nothing.
            return AttemptEnd(AttemptOutcome.GIVEN_BACK, forced=killed)
        case _:
            assert_never(reported)


def _give_back_end(reported: GiveBack) -> AttemptEnd:
    match reported.reason:
        case GiveBackReason.DRAINING | GiveBackReason.REFUSED:
            return AttemptEnd(AttemptOutcome.GIVEN_BACK, refused=True)
        case GiveBackReason.PROCESS_DIED if reported.alone:
            error = JobError(EXECUTOR_LOST, "the handler's process died")
            return AttemptEnd(AttemptOutcome.LOST, error)
        case GiveBackReason.PROCESS_DIED:
            return AttemptEnd(AttemptOutcome.GIVEN_BACK, suspect=True)
        case GiveBackReason.NEIGHBOUR_KILLED | GiveBackReason.NOT_STARTED | GiveBackReason.UNDELIVERED:
            return AttemptEnd(AttemptOutcome.GIVEN_BACK)
        case _:
            assert_never(reported.reason)


def outcome_of(reported: End, decision: TryAgain | Finish) -> ReportOutcome:
    """Say what became durable of a report, by what followed from it."""
    match decision:
        case TryAgain():
            return ReportOutcome.RETRY_SCHEDULED
        case Finish(change=JobChange.CANCELLED) if not isinstance(reported, Stopped):
            return ReportOutcome.CANCELLED_INSTEAD
        case Finish():
            return ReportOutcome.ACCEPTED
        case _:
            assert_never(decision)
