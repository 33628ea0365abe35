"""Time in which the services themselves were silent: the reaper holds it against nobody."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from job_api.loops.lease_reaper import LeaseReaper
from shared.domain.attempts import AttemptOutcome
from shared.domain.leases import PULSE_TOLERANCE
from shared.storage.transactions import Transactions
from tests.support.database_time import DatabaseTime
from tests.support.reaping import SECOND, SHORT_TIMEOUT, accepted, beat, outcomes


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


async def test_time_without_services_counts_for_no_time_out(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime
) -> None:
    lease = await accepted(transactions, terms=SHORT_TIMEOUT)
    await database_time.jump(1_000 * SECOND)
    await database_time.pulse()

    await reaper.step()

    assert await outcomes(transactions, lease.ref.job_id) == [None]


@pytest.mark.parametrize("calls", range(1, 6))
async def test_a_database_that_stands_still_while_the_reaper_looks_ends_no_lease(
    transactions: Transactions, reaper: LeaseReaper, database_time: DatabaseTime, calls: int
) -> None:
    """The time leaps on behind any of the points at which the reaper asks for it."""
    lease = await accepted(transactions)
    await database_time.pulse()
    async with transactions.begin() as transaction:
        await transaction.connection.execute(sa.text("create sequence times_asked"))
        await transaction.connection.execute(
            sa.text(f"""
            create or replace function engine_time() returns timestamptz language sql volatile as $$
                select clock_timestamp()
                    + case when nextval('times_asked') > {calls} then interval '1 hour' else interval '0' end
            $$""")
        )

    await reaper.step()

    assert await outcomes(transactions, lease.ref.job_id) == [None]
