"""The reaper on real servers, with the database's time moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from job_api.loops.lease_reaper import LeaseReaper
from shared.catalog import catalog
from shared.domain.attempts import AttemptOutcome
from shared.domain.identity import JobId, JobType
from shared.domain.jobs import JobState
from shared.domain.leases import PULSE_TOLERANCE, Heartbeat, Lease, LeaseTerms
from shared.storage.attempts import Attempt
from shared.storage.transactions import Transactions
from shared.streams.channels import Channel
from shared.streams.wake_ups import JobsChanged, WakeUps
from tests.support.database_time import DatabaseTime
from tests.support.storage import a_job, a_lease, the_job

SECOND = timedelta(seconds=1)
LONG = LeaseTerms(duration=30 * SECOND, timeout=600 * SECOND, grace=3 * SECOND)
SHORT_TIMEOUT = LeaseTerms(duration=30 * SECOND, timeout=10 * SECOND, grace=3 * SECOND)


@pytest.fixture
def woken() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def reaper(
    transactions: Transactions, wake_ups: WakeUps, woken: asyncio.Event, database_time: DatabaseTime
) -> LeaseReaper:
    return LeaseReaper(transactions, wake_ups, catalog.load(), wake_dispatcher=woken, uniform=lambda: 0.0)


async def accepted(transactions: Transactions, *, terms: LeaseTerms = LONG, **changes: Any) -> Lease:
    """A lease whose executor has been heard."""
    lease = await a_lease(transactions, terms=terms, **changes)
    await beat(transactions, lease)
    return lease


async def beat(transactions: Transactions, *leases: Lease) -> None:
    async with transactions.begin() as transaction:
        outcome = await transaction.leases.extend([Heartbeat(each.ref) for each in leases])
    assert not outcome.lost


async def attempts(transactions: Transactions, job_id: JobId) -> Sequence[Attempt]:
    async with transactions.begin() as transaction:
        return await transaction.attempts.list_of(job_id, after=0, limit=100)


async def outcomes(transactions: Transactions, job_id: JobId) -> list[AttemptOutcome | None]:
    return [each.outcome for each in await attempts(transactions, job_id)]


async def request_cancel(transactions: Transactions, job_id: JobId) -> None:
    async with transactions.begin() as transaction:
        await transaction.leases.request_cancel(job_id)


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

    await database_time.advance(44 * SECOND)
    await reaper.step()
    await beat(transactions, lease)
    await database_time.advance(44 * SECOND)
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


async def test_the_services_own_silence_is_given_back_to_every_lease(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await accepted(transactions)
    await database_time.advance(40 * SECOND)

    await database_time.jump(1_000 * SECOND)
    await reaper.step()  # no pulse yet: nothing can be judged
    assert await database_time.pulse() > 999 * SECOND
    await reaper.step()
    assert await outcomes(transactions, lease.ref.job_id) == [None]

    await database_time.advance(4 * SECOND)
    await reaper.step()
    assert await outcomes(transactions, lease.ref.job_id) == [None]

    await database_time.advance(2 * SECOND)
    await reaper.step()
    assert await outcomes(transactions, lease.ref.job_id) == [AttemptOutcome.LOST]


async def test_a_silence_that_will_be_given_back_ends_no_lease_before_it_is(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await accepted(transactions)
    await database_time.advance(44 * SECOND)

    await database_time.jump(PULSE_TOLERANCE + SECOND)
    await reaper.step()
    assert await outcomes(transactions, lease.ref.job_id) == [None]
    await database_time.pulse()
    await reaper.step()
    assert await outcomes(transactions, lease.ref.job_id) == [None]


async def test_a_lease_from_the_midst_of_a_silence_gets_back_only_what_it_stood_through(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    await database_time.jump(1_000 * SECOND)
    lease = await accepted(transactions, terms=SHORT_TIMEOUT)
    await database_time.jump(10 * SECOND)
    await database_time.pulse()

    await database_time.advance(12 * SECOND)
    await beat(transactions, lease)
    await reaper.step()
    assert await outcomes(transactions, lease.ref.job_id) == [None]

    await database_time.advance(2 * SECOND)
    await reaper.step()
    assert await outcomes(transactions, lease.ref.job_id) == [AttemptOutcome.TIMED_OUT]


async def test_an_executor_lost_in_a_silence_is_missed_a_lease_time_and_a_half_after_it(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    await database_time.jump(1_000 * SECOND)
    lease = await accepted(transactions)
    await database_time.jump(10 * SECOND)
    await database_time.pulse()

    await database_time.advance(46 * SECOND)
    await reaper.step()

    assert await outcomes(transactions, lease.ref.job_id) == [AttemptOutcome.LOST]


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


async def test_time_without_services_counts_for_no_time_out(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await accepted(transactions, terms=SHORT_TIMEOUT)
    await database_time.jump(1_000 * SECOND)
    await database_time.pulse()

    await reaper.step()

    assert await outcomes(transactions, lease.ref.job_id) == [None]


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

    assert (await the_job(transactions, lease.ref.job_id)).state is JobState.CANCELLED
    assert await outcomes(transactions, lease.ref.job_id) == [AttemptOutcome.LOST]


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
