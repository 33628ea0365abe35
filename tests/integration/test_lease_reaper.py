"""The reaper on real servers, with the database's time moved by hand."""

from __future__ import annotations

import asyncio

from job_api.loops.lease_reaper import LeaseReaper
from shared.domain.attempts import AttemptOutcome
from shared.domain.identity import JobId, JobType
from shared.domain.jobs import JobState
from shared.domain.leases import LeaseTerms
from shared.storage.transactions import Transactions
from shared.streams.channels import Channel
from shared.streams.wake_ups import JobsChanged, WakeUps
from tests.support.database_time import DatabaseTime
from tests.support.reaping import LONG, SECOND, SHORT_TIMEOUT, accepted, attempts, beat, outcomes
from tests.support.storage import a_job, a_lease, the_job


async def request_cancel(transactions: Transactions, job_id: JobId) -> None:
    async with transactions.begin() as transaction:
        await transaction.leases.request_cancels([job_id])


async def cancelled_end(transactions: Transactions, job_id: JobId) -> tuple[AttemptOutcome | None, bool, int]:
    """Return how a cancelled job's one attempt ended, whether by force, and what it cost."""
    job = await the_job(transactions, job_id)
    (attempt,) = await attempts(transactions, job_id)
    assert (job.state, job.error, attempt.error) == (JobState.CANCELLED, None, None)
    assert job.cancellation is not None
    return attempt.outcome, job.cancellation.forced, job.losses + job.failures


async def test_a_silent_executor_loses_its_lease_and_a_lively_one_keeps_it(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    silent, lively = await accepted(transactions), await accepted(transactions)

    await database_time.advance(40 * SECOND)
    await beat(transactions, lively)
    await database_time.advance(6 * SECOND)
    assert await reaper.step() is False

    assert await outcomes(transactions, silent.ref.job_id) == [AttemptOutcome.LOST]
    assert await outcomes(transactions, lively.ref.job_id) == [None]


async def test_a_lease_stands_for_one_and_a_half_lease_times_and_a_late_heartbeat_saves_it(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await accepted(transactions)

    await database_time.advance(42 * SECOND)
    await reaper.step()
    await beat(transactions, lease)
    await database_time.advance(42 * SECOND)
    await reaper.step()

    assert await outcomes(transactions, lease.ref.job_id) == [None]


async def test_a_lost_attempt_is_followed_by_another_and_counts_as_no_failure(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime, woken: asyncio.Event
) -> None:
    lease = await accepted(transactions)
    await database_time.advance(46 * SECOND)

    await reaper.step()

    job = await the_job(transactions, lease.ref.job_id)
    assert (job.state, job.attempt, job.failures, job.losses) == (JobState.RUNNING, 1, 0, 1)
    assert job.next_attempt_time is not None
    assert job.error is not None
    assert job.error.code == "EXECUTOR_LOST"
    assert woken.is_set()
    assert (await accepted(transactions, job_id=lease.ref.job_id, attempt=2)).attempt == 2


async def test_the_third_loss_fails_the_job(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    job_id = await a_job(transactions)
    for attempt in (1, 2, 3):
        assert (await the_job(transactions, job_id)).state is not JobState.FAILED
        await accepted(transactions, job_id=job_id, attempt=attempt)
        await database_time.advance(46 * SECOND)
        await reaper.step()

    job = await the_job(transactions, job_id)
    assert (job.state, job.failures, job.losses) == (JobState.FAILED, 0, 3)
    assert job.error is not None
    assert job.error.code == "EXECUTOR_LOST"
    assert await outcomes(transactions, job_id) == [AttemptOutcome.LOST] * 3


async def test_a_lease_that_was_never_accepted_is_given_back_and_costs_nothing(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await a_lease(transactions, terms=LONG)
    await database_time.advance(46 * SECOND)

    await reaper.step()

    job = await the_job(transactions, lease.ref.job_id)
    assert await outcomes(transactions, job.job_id) == [AttemptOutcome.GIVEN_BACK]
    assert (job.state, job.failures, job.losses, job.error) == (JobState.RUNNING, 0, 0, None)


async def test_an_attempt_past_time_out_and_grace_ends_whatever_its_heartbeats_say(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await accepted(transactions, terms=SHORT_TIMEOUT)
    await database_time.advance(12 * SECOND)
    await reaper.step()
    assert await outcomes(transactions, lease.ref.job_id) == [None]

    await database_time.advance(2 * SECOND)
    await beat(transactions, lease)
    await reaper.step()

    (attempt,) = await attempts(transactions, lease.ref.job_id)
    assert attempt.outcome is AttemptOutcome.TIMED_OUT
    assert attempt.error is not None
    assert attempt.error.code == "TIMEOUT"
    job = await the_job(transactions, lease.ref.job_id)
    assert (job.state, job.failures, job.losses) == (JobState.RUNNING, 1, 0)


async def test_a_cancel_that_is_ignored_beyond_the_grace_period_is_forced(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await accepted(transactions)
    await request_cancel(transactions, lease.ref.job_id)
    await database_time.advance(2 * SECOND)
    await beat(transactions, lease)
    await reaper.step()
    assert (await the_job(transactions, lease.ref.job_id)).state is JobState.RUNNING

    await database_time.advance(2 * SECOND)
    await beat(transactions, lease)
    await reaper.step()

    job = await the_job(transactions, lease.ref.job_id)
    assert job.state is JobState.CANCELLED
    assert job.cancellation is not None
    assert job.cancellation.forced
    assert await outcomes(transactions, job.job_id) == [AttemptOutcome.CANCELLED]


async def test_a_job_whose_executor_is_lost_after_a_cancel_is_cancelled(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await accepted(transactions, terms=LeaseTerms(2 * SECOND, 600 * SECOND, 60 * SECOND))
    await request_cancel(transactions, lease.ref.job_id)
    await database_time.advance(4 * SECOND)

    await reaper.step()

    assert await cancelled_end(transactions, lease.ref.job_id) == (AttemptOutcome.CANCELLED, False, 0)


async def test_a_job_whose_executor_never_took_its_lease_is_cancelled_after_a_cancel(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await a_lease(transactions, terms=LeaseTerms(2 * SECOND, 600 * SECOND, 60 * SECOND))
    await request_cancel(transactions, lease.ref.job_id)
    await database_time.advance(4 * SECOND)

    await reaper.step()

    assert await cancelled_end(transactions, lease.ref.job_id) == (AttemptOutcome.CANCELLED, False, 0)


async def test_a_job_that_runs_out_of_time_after_a_cancel_is_cancelled_by_force(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await accepted(transactions, terms=SHORT_TIMEOUT)
    await database_time.advance(12 * SECOND)
    await request_cancel(transactions, lease.ref.job_id)
    await database_time.advance(2 * SECOND)

    await reaper.step()

    assert await cancelled_end(transactions, lease.ref.job_id) == (AttemptOutcome.CANCELLED, True, 0)


async def test_a_job_type_that_only_another_replica_knows_is_reaped_too(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    job_id = await a_job(transactions, job_type=JobType("of_tomorrow"))
    await accepted(transactions, job_id=job_id)
    await database_time.advance(46 * SECOND)

    await reaper.step()

    assert await outcomes(transactions, job_id) == [AttemptOutcome.LOST]


async def test_watchers_are_told_when_the_reaper_has_committed(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime, wake_ups: WakeUps
) -> None:
    lease = await accepted(transactions)
    await database_time.advance(46 * SECOND)

    async with wake_ups.listen(Channel.JOBS_CHANGED) as hints:
        await reaper.step()
        assert await anext(hints) == JobsChanged(frozenset({lease.ref.job_id}))


async def test_reapers_end_each_attempt_once(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    leases = [await accepted(transactions) for _ in range(10)]
    await database_time.advance(46 * SECOND)

    await asyncio.gather(*(reaper.step() for _ in range(3)))

    for lease in leases:
        assert await outcomes(transactions, lease.ref.job_id) == [AttemptOutcome.LOST]
        assert (await the_job(transactions, lease.ref.job_id)).losses == 1
