"""Ends attempts as the worker does: lock, decide, write; and answers reports that come again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from shared.domain.attempts import AttemptEnd, AttemptOutcome, Finish, TryAgain, decide, effective
from shared.domain.identity import JobType
from shared.domain.jobs import Artifact, JobChange, JobError
from shared.domain.leases import LeaseRef
from shared.domain.retries import EXECUTOR_LOST, TIMEOUT, RetryPolicy
from shared.storage.attempts import EarlierReport, HeldAttempt
from shared.storage.state_changes import Ending
from shared.storage.transactions import Transaction, Transactions
from tests.support.storage import Session


class Report(StrEnum):
    """What an executor says of an attempt."""

    SUCCESS = "success"
    PROVIDER_AWAY = "provider_away"
    BAD_INPUT = "bad_input"
    ENGINE_FAULT = "engine_fault"
    OUT_OF_TIME = "out_of_time"
    PROCESS_DIED = "process_died"
    GIVEN_BACK = "given_back"
    REFUSED = "refused"
    SUSPECT = "suspect"
    STOPPED = "stopped"


class Answer(StrEnum):
    """What an executor is told."""

    ACCEPTED = "accepted"
    CANCELLED_INSTEAD = "cancelled_instead"
    RETRY_SCHEDULED = "retry_scheduled"
    LEASE_LOST = "lease_lost"
    REFUSED = "refused"


_ENDS = {
    Report.SUCCESS: AttemptEnd(AttemptOutcome.SUCCEEDED),
    Report.PROVIDER_AWAY: AttemptEnd(AttemptOutcome.FAILED, JobError("PROVIDER_UNAVAILABLE", "no answer")),
    Report.BAD_INPUT: AttemptEnd(AttemptOutcome.FAILED, JobError("INPUT_BROKEN", "can't be read")),
    Report.ENGINE_FAULT: AttemptEnd(AttemptOutcome.FAILED, JobError("INTERNAL_ERROR", "a bug")),
    Report.OUT_OF_TIME: AttemptEnd(AttemptOutcome.TIMED_OUT, JobError(TIMEOUT, "too slow")),
    Report.PROCESS_DIED: AttemptEnd(AttemptOutcome.LOST, JobError(EXECUTOR_LOST, "its process died")),
    Report.GIVEN_BACK: AttemptEnd(AttemptOutcome.GIVEN_BACK),
    Report.REFUSED: AttemptEnd(AttemptOutcome.GIVEN_BACK, refused=True),
    Report.SUSPECT: AttemptEnd(AttemptOutcome.GIVEN_BACK, suspect=True),
    Report.STOPPED: AttemptEnd(AttemptOutcome.GIVEN_BACK),
}


class Reports:
    """The reports' way into the database."""

    def __init__(self, transactions: Transactions, policy: RetryPolicy, *, uniform: float) -> None:
        self._transactions = transactions
        self._policy = policy
        self._uniform = uniform

    async def make(self, reports: Sequence[tuple[LeaseRef, Report]]) -> list[Answer]:
        """Make reports durable, a job's at most once in one call, and answer each."""
        async with self._transactions.begin() as transaction:
            held = await transaction.attempts.lock([lease for lease, _ in reports])
            earlier = await transaction.attempts.earlier_reports(
                [lease for lease, _ in reports if lease not in held]
            )
            answers = [
                self._answer(held[lease], report) if lease in held else _again(report, earlier.get(lease))
                for lease, report in reports
            ]
            endings = [
                self._ending(held[lease], _ENDS[report], report=report, answer=answer)
                for (lease, report), answer in zip(reports, answers, strict=True)
                if lease in held
            ]
            await _project(transaction, endings)
            assert await transaction.states.end_attempts(endings) == {each.job_id for each in held}
        return answers

    async def hello(self, session: Session, named: Sequence[LeaseRef]) -> Collection[LeaseRef]:
        """Replace the incarnation's session, give back what it does not name, and return what it keeps."""
        async with self._transactions.begin() as transaction:
            await transaction.sessions.replace(
                session.incarnation_id,
                session.session_id,
                executor_name=session.executor_name,
                runtime="test",
                job_types=[JobType("synthetic")],
            )
            await self._give_back(transaction, session, named)
            return await transaction.leases.attach(session.incarnation_id, session.session_id, named)

    async def goodbye(self, session: Session) -> bool:
        """End a session, and give back all that it held; False if a newer one has taken over."""
        async with self._transactions.begin() as transaction:
            ended = await transaction.sessions.end(session.incarnation_id, session.session_id)
            if ended:
                await self._give_back(transaction, session, ())
            return ended

    async def _give_back(self, transaction: Transaction, session: Session, named: Sequence[LeaseRef]) -> None:
        unnamed = await transaction.attempts.lock_unnamed(
            session.incarnation_id, named=[each.token for each in named]
        )
        end = AttemptEnd(AttemptOutcome.GIVEN_BACK)
        await transaction.states.end_attempts([self._ending(each, end) for each in unnamed])

    def _ending(self, held: HeldAttempt, end: AttemptEnd, *, report: str = "", answer: str = "") -> Ending:
        end = effective(end, held.standing)
        return Ending(
            held.lease,
            end,
            self._decision(held, end),
            report_hash=report,
            answer=answer,
            artifact_count=int(end.outcome is AttemptOutcome.SUCCEEDED),
        )

    def _decision(self, held: HeldAttempt, end: AttemptEnd) -> TryAgain | Finish:
        if end.outcome is AttemptOutcome.SUCCEEDED:
            return Finish(JobChange.SUCCEEDED, None, held.standing)
        return decide(end, held.standing, self._policy, uniform=self._uniform)

    def _answer(self, held: HeldAttempt, report: Report) -> Answer:
        decision = self._decision(held, effective(_ENDS[report], held.standing))
        if isinstance(decision, TryAgain):
            return Answer.RETRY_SCHEDULED
        if decision.change is JobChange.CANCELLED and report is not Report.STOPPED:
            return Answer.CANCELLED_INSTEAD
        return Answer.ACCEPTED


def _again(report: Report, earlier: EarlierReport | None) -> Answer:
    if earlier is None or not earlier.report_hash:
        return Answer.LEASE_LOST
    return Answer(earlier.answer) if earlier.report_hash == report else Answer.REFUSED


async def _project(transaction: Transaction, endings: Sequence[Ending]) -> None:
    """Write one artifact for each success; a second one of a job is refused by its table."""
    made = {
        each.lease.job_id: [Artifact("result", "only", 1)]
        for each in endings
        if each.end.outcome is AttemptOutcome.SUCCEEDED
    }
    await transaction.artifacts.add(made)
