"""Where a job's state is written, and nowhere else.

Who is authoritative: the row in `jobs`, whose state changes here only, each time in one statement that has
the state table as its guard (`state_statements`, `guards`). What is promised: a change, the events that tell
of it, and the messages that leave because of it become durable together or not at all. Two callers that race
meet at the job's row lock; the second finds no row that fits and changes nothing. The database refuses an
illegal change by itself.

A dispatch row exists exactly while its job waits for an executor: made with the job or at an attempt's end,
removed by the claim or with the job's end. So removing it is what makes a claim the only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shared.domain.attempts import AttemptEnd, Finish, TryAgain
from shared.domain.identity import JobId
from shared.domain.jobs import JobError
from shared.domain.leases import ClaimRequest, Lease, LeaseRef
from shared.storage.claim_statement import CLAIM, CLAIM_COLUMNS, CLAIM_WITHIN_LIMITS, HOLD_LIMITS
from shared.storage.database import Connection
from shared.storage.granted import lease_of
from shared.storage.rows import columns, error_columns
from shared.storage.state_statements import CANCEL_WAITING, END, END_COLUMNS


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one leased attempt, decided and ready to be written.

    Attributes:
        report_hash: Of the report that ended it; empty if no report did.
        answer: What that report was answered, kept for when it comes again.
        output: Canonical JSON, where the definition keeps it.
    """

    lease: LeaseRef
    end: AttemptEnd
    decision: TryAgain | Finish
    report_hash: str = ""
    answer: str = ""
    output: bytes | None = None
    output_hash: str = ""
    artifact_count: int = 0


class StateChanges:
    """Every change of a job's state."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[Lease]:
        """Grant the leases that may be granted, and return them with what their executors need, in no order.

        A request is refused if its attempt does not wait or is not due, its job was cancelled or its start-by
        time has passed, its session is not the current one, its incarnation has refused the job, its queue or
        type is paused, or a limit of its type is reached. Its dispatch row, if it stands, goes back to
        pending.

        Claims of a type with limits wait for each other, so begin the transaction with them.

        Args:
            requests: May be empty; a job at most once.
        """
        if not requests:
            return []
        limited = {each.limits.job_type for each in requests if each.limits}
        if limited:
            await self._connection.execute(HOLD_LIMITS, {"job_types": sorted(limited)})
        claimed = [_claim_row(place, each) for place, each in enumerate(requests)]
        statement = CLAIM_WITHIN_LIMITS if limited else CLAIM
        rows = await self._connection.execute(statement, columns(claimed, CLAIM_COLUMNS))
        return [lease_of(row) for row in rows]

    async def end_attempts(self, endings: Sequence[Ending]) -> set[JobId]:
        """Write the ends of leased attempts, and return the jobs for which it was done.

        Args:
            endings: May be empty; a job at most once. The leases were locked in this transaction.
        """
        if not endings:
            return set()
        rows = await self._connection.execute(END, columns([_end_row(each) for each in endings], END_COLUMNS))
        return {row.job_id for row in rows}

    async def cancel_waiting(
        self, job_ids: Sequence[JobId], *, past_start_by: bool = False, error: JobError | None = None
    ) -> set[JobId]:
        """Cancel those of the jobs that wait for an executor, and return them; leased ones are left alone.

        Args:
            job_ids: May be empty.
            past_start_by: Only those that have not started by their start-by time.
        """
        if not job_ids:
            return set()
        parameters = {"job_ids": list(job_ids), "past_start_by": past_start_by, **error_columns(error)}
        del parameters["error_internal"]
        rows = await self._connection.execute(CANCEL_WAITING, parameters)
        return {row.job_id for row in rows}


def _claim_row(place: int, request: ClaimRequest) -> dict[str, Any]:
    limits = request.limits
    return {
        "place": place,
        "job_id": request.job_id,
        "attempt": request.attempt,
        "token": request.token,
        "session_id": request.session_id,
        "incarnation_id": request.incarnation_id,
        "executor_name": request.executor_name,
        "lease_seconds": request.terms.duration.total_seconds(),
        "timeout_seconds": request.terms.timeout.total_seconds(),
        "grace_seconds": request.terms.grace.total_seconds(),
        "at_once": limits and limits.at_once,
        "at_once_per_owner": limits and limits.at_once_per_owner,
        "per_second": limits and limits.per_second,
    }


def _end_row(ending: Ending) -> dict[str, Any]:
    end, decision = ending.end, ending.decision
    change, delay, error = None, timedelta(0), end.error
    match decision:
        case Finish():
            change, error = decision.change, decision.error or end.error
        case TryAgain():
            delay = decision.delay
    return {
        "job_id": ending.lease.job_id,
        "token": ending.lease.token,
        "change": change,
        "delay_seconds": delay.total_seconds(),
        "outcome": end.outcome,
        "suspect": end.suspect,
        "refused": end.refused,
        "forced": end.forced,
        "failures": decision.standing.failures,
        "internal_failures": decision.standing.internal_failures,
        "losses": decision.standing.losses,
        "give_backs": decision.standing.give_backs,
        "report_hash": ending.report_hash,
        "answer": ending.answer,
        "output": ending.output,
        "output_hash": ending.output_hash,
        "artifact_count": ending.artifact_count,
        **error_columns(error),
    }
