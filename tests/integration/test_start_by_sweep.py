"""Jobs that were to start by a time, on real servers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from job_api.loops.start_by_sweep import StartBySweep
from shared.domain.jobs import JobState
from shared.storage.transactions import Transactions
from shared.streams.channels import Channel
from shared.streams.wake_ups import JobsChanged, WakeUps
from tests.support.database_time import DatabaseTime
from tests.support.storage import a_job, a_lease, a_session, claim, claim_request, the_job

START_BY = timedelta(minutes=1)


@pytest.fixture
def sweep(transactions: Transactions, wake_ups: WakeUps) -> StartBySweep:
    return StartBySweep(transactions, wake_ups)


async def test_a_job_that_has_not_started_in_time_is_cancelled_with_the_reason(
    transactions: Transactions, sweep: StartBySweep, database_time: DatabaseTime, wake_ups: WakeUps
) -> None:
    late, patient = await a_job(transactions, start_by=START_BY), await a_job(transactions)
    assert await sweep.step() is False
    assert (await the_job(transactions, late)).state is JobState.QUEUED

    await database_time.jump(2 * START_BY)
    async with wake_ups.listen(Channel.JOBS_CHANGED) as hints:
        await sweep.step()
        assert await anext(hints) == JobsChanged(frozenset({late}))

    job = await the_job(transactions, late)
    assert job.state is JobState.CANCELLED
    assert job.error is not None
    assert job.error.code == "START_BY_PASSED"
    assert (await the_job(transactions, patient)).state is JobState.QUEUED


async def test_a_job_that_has_started_may_take_its_time(
    transactions: Transactions, sweep: StartBySweep, database_time: DatabaseTime
) -> None:
    job_id = await a_job(transactions, start_by=START_BY)
    await a_lease(transactions, job_id=job_id)
    await database_time.jump(2 * START_BY)

    await sweep.step()

    assert (await the_job(transactions, job_id)).state is JobState.RUNNING


async def test_a_late_job_is_not_leased_even_if_the_sweep_is_asleep(
    transactions: Transactions, database_time: DatabaseTime
) -> None:
    job_id = await a_job(transactions, start_by=START_BY)
    await database_time.jump(2 * START_BY)

    assert await claim(transactions, claim_request(await a_session(transactions), job_id)) == []
