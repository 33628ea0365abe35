"""Makes results durable: projection, state, artifacts and events in one transaction, or none of them.

Who is authoritative. The row in `leases`: a report counts if its token is the job's current one, and the
transaction holds that row and the job's from before the first projector runs until it commits. Two reports
under one lease meet there; the second finds the lease gone and is answered from the attempt's record.

What is promised. A job's result is committed at most once. The same report gets the same answer again, also
after the lease has ended by it; another report under that token is refused; a token that was never current,
or whose attempt something else ended, is told that the lease is lost, and nothing is stored. Once a cancel
was requested, no success is committed. What follows an end without success, the catalog's promises decide.

What happens when a part fails:

* An output that is too large, no JSON, has another hash, does not fit its model, or whose pieces are not all
  there, is the attempt's failure; nobody projects it.
* A projector raises, or takes longer than it may, or one of its statements does: everything rolls back, and
  the batch is done again report by report, so that only the culprit's attempt fails, as INTERNAL_PROJECTION.
* The database goes away, or ends the transaction for nobody's fault (a deadlock, a failover):
  `PlatformUnavailable` leaves, and the caller does the batch again. Whether the lost transaction was
  committed does not matter: the reports are then answered from the attempts' records.
* The process dies: the lease stands, and the executor reports again.
* The wake-ups after the commit are hints; watchers poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from traceback import extract_tb

import structlog

from job_worker.operations import outputs
from job_worker.operations.attempt_ends import AttemptEnds, end_of, outcome_of
from job_worker.operations.outputs import ReadOutput
from job_worker.operations.projection import Projection, SuccessfulAttempt
from job_worker.operations.report_answers import answer_of_ended, stored_answer
from job_worker.operations.reports import Report, ReportAnswer, ReportOutcome, Stopped, Success
from shared.domain.attempts import AttemptEnd, AttemptOutcome, Finish, effective
from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import JobId
from shared.domain.jobs import Artifact, JobChange, JobError
from shared.domain.leases import LeaseRef
from shared.domain.retries import INTERNAL_PROJECTION
from shared.storage.attempts import HeldAttempt
from shared.storage.state_changes import Ending
from shared.storage.transactions import Transaction, Transactions

log = structlog.get_logger(__name__)

_READ_APART_BYTES = 64 * 1024
"""Outputs of more than this together are read in a thread, so that heartbeats need not wait."""
_WRONG_NAMES = (AttributeError, ImportError, NameError)

_INTERNAL_CHARACTERS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class _Batch:
    """Reports, each of another job, with what was made of their outputs before any lock was taken."""

    reports: Sequence[Report]
    read: Mapping[LeaseRef, ReadOutput | JobError]


class ProjectResults:
    """Takes the reports of many executors at once."""

    def __init__(
        self,
        transactions: Transactions,
        ends: AttemptEnds,
        projection: Projection,
        *,
        output_bytes_max: int,
        tell_changed: Callable[[Collection[JobId]], None],
    ) -> None:
        """Begin; `tell_changed` is called after a commit, and must not hold up those who wait for answers."""
        self._transactions = transactions
        self._ends = ends
        self._projection = projection
        self._output_bytes_max = output_bytes_max
        self._tell_changed = tell_changed

    async def __call__(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        """Make what the reports say durable, and answer each in its place; idempotent.

        Raises:
            PlatformUnavailable: Some of the reports may be durable and others not; calling again is safe.
        """
        answers = dict[int, ReportAnswer]()
        for places in _rounds(reports):
            batch = await self._read([reports[place] for place in places])
            answered = await self._committed(batch)
            answers |= zip(places, answered, strict=True)
        return [answers[place] for place in range(len(reports))]

    async def _read(self, reports: Sequence[Report]) -> _Batch:
        successes = {each.lease: each.end for each in reports if isinstance(each.end, Success)}

        def read_all() -> Mapping[LeaseRef, ReadOutput | JobError]:
            return {
                lease: outputs.read(success, output_bytes_max=self._output_bytes_max)
                for lease, success in successes.items()
            }

        if sum(each.weight for each in reports) > _READ_APART_BYTES:
            return _Batch(reports, await asyncio.to_thread(read_all))
        return _Batch(reports, read_all())

    async def _committed(self, batch: _Batch) -> list[ReportAnswer]:
        """Commit a batch, or find the report that keeps it from being committed."""
        try:
            return await self._commit(batch)
        except PlatformUnavailable:
            raise
        except Exception as error:
            if not any(isinstance(each, ReadOutput) for each in batch.read.values()):
                raise  # nothing of a user's ran, so it is a bug
            if len(batch.reports) == 1:
                return await self._commit(_with_failure(batch.reports[0], error))
            log.warning("projection.redone", reports=len(batch.reports), error=type(error).__name__)
        answers = list[ReportAnswer]()
        for report in batch.reports:
            own = {lease: read for lease, read in batch.read.items() if lease == report.lease}
            answers += await self._committed(_Batch([report], own))
        return answers

    async def _commit(self, batch: _Batch) -> list[ReportAnswer]:
        async with self._transactions.begin() as transaction:
            held = await transaction.attempts.lock([each.lease for each in batch.reports])
            gone = [each for each in batch.reports if each.lease not in held]
            earlier = await transaction.attempts.earlier_reports([each.lease for each in gone])
            answers = {each.lease: answer_of_ended(each, earlier.get(each.lease)) for each in gone}
            # Who stops for a cancel has seen it, even if the word of that is still on its way to the record.
            stopped = [each.lease for each in batch.reports if isinstance(each.end, Stopped)]
            await transaction.leases.record_cancels_seen([each for each in stopped if each in held])
            endings = await self._endings(transaction, batch, held)
            await transaction.states.end_attempts([ending for ending, _ in endings.values()])
        answers |= {lease: answer for lease, (_, answer) in endings.items()}
        self._tell_changed([each.lease.job_id for each in batch.reports if each.lease in held])
        return [answers[each.lease] for each in batch.reports]

    async def _endings(
        self, transaction: Transaction, batch: _Batch, held: Mapping[LeaseRef, HeldAttempt]
    ) -> Mapping[LeaseRef, tuple[Ending, ReportAnswer]]:
        standing = [each for each in batch.reports if each.lease in held]
        attempts, faults = await self._successes(transaction, batch, held)
        made = await self._projection(transaction, attempts)
        await transaction.artifacts.add({lease.job_id: each for lease, each in made.items()})
        successes = {each.held.lease: each for each in attempts}
        return {
            each.lease: _succeeded(each, successes[each.lease], made[each.lease])
            if each.lease in successes
            else self._unsuccessful(each, held[each.lease], faults.get(each.lease))
            for each in standing
        }

    async def _successes(
        self, transaction: Transaction, batch: _Batch, held: Mapping[LeaseRef, HeldAttempt]
    ) -> tuple[list[SuccessfulAttempt], Mapping[LeaseRef, JobError]]:
        """Sort the successes that can be committed from those that can't; cancelled ones are neither."""
        faults = dict[LeaseRef, JobError]()
        attempts = list[SuccessfulAttempt]()
        wanted = {
            lease: read
            for lease, read in batch.read.items()
            if lease in held and not held[lease].standing.cancel_requested
        }
        in_pieces = await self._piece_faults(transaction, batch, [held[lease] for lease in wanted])
        for lease, read in wanted.items():
            output = in_pieces.get(lease) or read
            checked = output if isinstance(output, JobError) else self._projection.check(held[lease], output)
            if isinstance(checked, JobError):
                faults[lease] = checked
            else:
                attempts.append(checked)
        return attempts, faults

    async def _piece_faults(
        self, transaction: Transaction, batch: _Batch, held: Sequence[HeldAttempt]
    ) -> Mapping[LeaseRef, JobError]:
        named = {
            each.lease: each.end
            for each in batch.reports
            if isinstance(each.end, Success) and each.end.piece_count
        }
        with_pieces = [each for each in held if each.lease in named]
        if not with_pieces:
            return {}
        texts = await transaction.pieces.texts(
            [each.lease for each in with_pieces], [each.attempt for each in with_pieces]
        )
        faults = {lease: outputs.pieces_fault(named[lease], stored) for lease, stored in texts.items()}
        return {lease: fault for lease, fault in faults.items() if fault is not None}

    def _unsuccessful(
        self, report: Report, held: HeldAttempt, fault: JobError | None
    ) -> tuple[Ending, ReportAnswer]:
        if isinstance(report.end, Success):
            end = AttemptEnd(AttemptOutcome.FAILED, fault)
        else:
            end = end_of(report.end)
        end = effective(end, held.standing)
        decision = self._ends.decide(held, end)
        answer = ReportAnswer(report.lease, outcome_of(report.end, decision))
        if fault is not None and answer.outcome is ReportOutcome.ACCEPTED:
            answer = ReportAnswer(report.lease, ReportOutcome.REFUSED, fault.code, fault.message)
        ending = Ending(
            report.lease, end, decision, report_hash=report.content_hash, answer=stored_answer(answer)
        )
        return ending, answer


def _succeeded(
    report: Report, attempt: SuccessfulAttempt, made: Sequence[Artifact]
) -> tuple[Ending, ReportAnswer]:
    answer = ReportAnswer(report.lease, ReportOutcome.ACCEPTED)
    ending = Ending(
        report.lease,
        AttemptEnd(AttemptOutcome.SUCCEEDED),
        Finish(JobChange.SUCCEEDED, None, attempt.held.standing),
        report_hash=report.content_hash,
        answer=stored_answer(answer),
        output=attempt.kept,
        output_hash=attempt.output.content_hash,
        artifact_count=len(made),
    )
    return ending, answer


def _with_failure(report: Report, error: Exception) -> _Batch:
    # Where it was raised, and not what it says, which may hold parts of the output; names in code don't.
    log.error(
        "projection.failed",
        job_id=str(report.lease.job_id),
        error=type(error).__name__,
        message=str(error) if isinstance(error, _WRONG_NAMES) else None,
        frames=[f"{each.filename}:{each.lineno} {each.name}" for each in extract_tb(error.__traceback__)],
    )
    inside = f"{type(error).__name__}: {error}".replace("\0", "\N{REPLACEMENT CHARACTER}")
    failure = JobError(
        INTERNAL_PROJECTION, "the result could not be stored", inside[:_INTERNAL_CHARACTERS_MAX]
    )
    return _Batch([report], {report.lease: failure})


def _rounds(reports: Sequence[Report]) -> Iterator[list[int]]:
    """Yield the places of reports so that no round has two of one job, the first ones first."""
    left = list(range(len(reports)))
    while left:
        seen = dict[JobId, int]()
        for place in left:
            seen.setdefault(reports[place].lease.job_id, place)
        yield list(seen.values())
        left = [place for place in left if seen[reports[place].lease.job_id] != place]
