"""Lists by state meet a job in each state of its life, though no index of jobs knows of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import JobId, Owner
from shared.domain.jobs import JobState, Target
from shared.storage import open_jobs
from shared.storage.job_lists import JobFilter
from shared.storage.transactions import Transactions
from tests.support.storage import (
    FINAL,
    RETRYABLE,
    a_job,
    a_lease,
    a_session,
    claim,
    claim_request,
    end_attempt,
    ending,
    job_in,
    new_job,
)

OWNER = Owner("owner")
_OPEN = sa.text(f"select {open_jobs.count(':owner', at_most=':most')}")
_DIES = sa.text("update outbox set state = 'dead' where event_type = 'job.dispatch'")
_ASKED = sa.text("update jobs set cancel_request_time = engine_time() where job_id = :job_id")


async def whose_dispatch_is_dead(transactions: Transactions) -> JobId:
    job_id = await a_job(transactions)
    async with transactions.begin() as transaction:
        await transaction.connection.execute(_DIES)
    return job_id


async def whose_attempt_ended(transactions: Transactions, *, end: AttemptEnd) -> JobId:
    lease = await a_lease(transactions)
    await end_attempt(transactions, lease.ref, end)
    return lease.ref.job_id


async def failed_once(transactions: Transactions) -> JobId:
    return await whose_attempt_ended(transactions, end=AttemptEnd(AttemptOutcome.FAILED, RETRYABLE))


async def given_back(transactions: Transactions) -> JobId:
    return await whose_attempt_ended(transactions, end=AttemptEnd(AttemptOutcome.GIVEN_BACK))


async def lost_for_good(transactions: Transactions) -> JobId:
    job_id = await whose_attempt_ended(transactions, end=AttemptEnd(AttemptOutcome.LOST))
    for attempt in (2, 3):
        lease = await a_lease(transactions, job_id=job_id, attempt=attempt)
        await end_attempt(transactions, lease.ref, AttemptEnd(AttemptOutcome.LOST))
    return job_id


async def in_its_second_attempt(transactions: Transactions) -> JobId:
    job_id = await failed_once(transactions)
    return (await a_lease(transactions, job_id=job_id, attempt=2)).ref.job_id


async def successful_in_its_second_attempt(transactions: Transactions) -> JobId:
    job_id = await failed_once(transactions)
    lease = await a_lease(transactions, job_id=job_id, attempt=2)
    await end_attempt(transactions, lease.ref, AttemptEnd(AttemptOutcome.SUCCEEDED))
    return job_id


async def cancelled_while_it_waited(transactions: Transactions) -> JobId:
    job_id = await a_job(transactions)
    async with transactions.begin() as transaction:
        assert await transaction.states.cancel_waiting([job_id])
    return job_id


async def asked_to_stop(transactions: Transactions) -> JobId:
    job_id = await job_in(transactions, JobState.RUNNING)
    async with transactions.begin() as transaction:
        await transaction.connection.execute(_ASKED, {"job_id": job_id})
    return job_id


async def cancelled_while_it_ran(transactions: Transactions) -> JobId:
    lease = await a_lease(transactions)
    async with transactions.begin() as transaction:
        await transaction.connection.execute(_ASKED, {"job_id": lease.ref.job_id})
    await end_attempt(transactions, lease.ref, AttemptEnd(AttemptOutcome.FAILED, FINAL))
    return lease.ref.job_id


LIVES: list[tuple[Callable[[Transactions], Awaitable[JobId]], JobState]] = [
    (a_job, JobState.QUEUED),
    (whose_dispatch_is_dead, JobState.QUEUED),
    (failed_once, JobState.RUNNING),
    (given_back, JobState.RUNNING),
    (in_its_second_attempt, JobState.RUNNING),
    (asked_to_stop, JobState.RUNNING),
    (successful_in_its_second_attempt, JobState.SUCCEEDED),
    (lost_for_good, JobState.FAILED),
    (cancelled_while_it_waited, JobState.CANCELLED),
    (cancelled_while_it_ran, JobState.CANCELLED),
]


@pytest.mark.parametrize(("life", "state"), LIVES, ids=[life.__name__ for life, _ in LIVES])
async def test_a_job_is_met_in_its_state_and_in_no_other(
    transactions: Transactions, life: Callable[[Transactions], Awaitable[JobId]], state: JobState
) -> None:
    job_id = await life(transactions)
    for owner in (None, OWNER, Owner("other")):
        for each in JobState:
            async with transactions.begin() as transaction:
                wanted = JobFilter(owner=owner, states=frozenset({each}))
                found = await transaction.jobs.page(wanted, after=None, limit=10)
            met = each is state and owner in (None, OWNER)
            assert [job.job_id for job in found] == ([job_id] if met else []), (owner, each)


async def test_an_owners_open_jobs_are_counted_up_to_a_limit(transactions: Transactions) -> None:
    for life, _ in LIVES:
        await life(transactions)
    await a_job(transactions, owner=Owner("other"))
    async with transactions.begin() as transaction:
        for most, count in ((100, 6), (4, 4), (0, 0)):
            found = await transaction.connection.execute(_OPEN, {"owner": OWNER, "most": most})
            assert found.scalar_one() == count


_WRITTEN = sa.text("""
select pg_stat_get_xact_tuples_updated('jobs'::regclass) as rows,
    pg_stat_get_xact_tuples_hot_updated('jobs'::regclass) as on_their_pages
""")


async def test_a_claim_and_a_success_write_no_index_of_jobs(transactions: Transactions) -> None:
    """Of jobs that are in every index that they can be in before their end."""
    made = [
        new_job(labels={"course": "c1"}, target=Target("document", f"chapter {number}"))
        for number in range(40)
    ]
    async with transactions.begin() as transaction:
        await transaction.creation.create_jobs(made)
    session = await a_session(transactions)
    async with transactions.begin() as transaction:
        leases = await transaction.states.claim([claim_request(session, each.job_id) for each in made])
        after_claims = (await transaction.connection.execute(_WRITTEN)).one()
    assert len(leases) == 40
    assert after_claims.on_their_pages == after_claims.rows >= 40
    async with transactions.begin() as transaction:
        ends = [await ending(transaction, each.ref, AttemptEnd(AttemptOutcome.SUCCEEDED)) for each in leases]
        await transaction.states.end_attempts(ends)
        after_ends = (await transaction.connection.execute(_WRITTEN)).one()
    assert after_ends.on_their_pages == after_ends.rows >= 40
    assert not await claim(transactions, *(claim_request(session, each.job_id) for each in made))
