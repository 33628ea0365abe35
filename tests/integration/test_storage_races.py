"""Callers that race at the database: one wins, the others change nothing, and nobody deadlocks."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome, Finish
from shared.domain.identity import JobType, Owner
from shared.domain.jobs import JobChange, JobState
from shared.domain.leases import Heartbeat, Lease
from shared.storage.idempotency import IdempotencyKey, KeyClaim
from shared.storage.state_changes import Ending
from shared.storage.transactions import Transactions
from tests.support.storage import a_job, a_lease, a_session, claim, claim_request, new_job, opened, the_job

RACERS = 12


async def succeed(transactions: Transactions, lease: Lease) -> bool:
    """Report success the way the service does: lock, look for a cancel, end."""
    async with transactions.begin() as transaction:
        held = (await transaction.attempts.lock([lease.ref])).get(lease.ref)
        if held is None:
            return False
        change = JobChange.CANCELLED if held.standing.cancel_requested else JobChange.SUCCEEDED
        end = AttemptEnd(AttemptOutcome.SUCCEEDED)
        ended = await transaction.states.end_attempts(
            [Ending(lease.ref, end, Finish(change, None, held.standing))]
        )
        return bool(ended) and change is JobChange.SUCCEEDED


async def cancel(transactions: Transactions, lease: Lease) -> bool:
    """Cancel the way the service does; True if the cancel was accepted."""
    job_id = lease.ref.job_id
    async with transactions.begin() as transaction:
        job = await transaction.jobs.lock(job_id)
        assert job is not None
        if job.state is not JobState.RUNNING:
            return False
        if not await transaction.states.cancel_waiting([job_id]):
            await transaction.leases.request_cancels([job_id])
        return True


async def test_one_of_many_claims_wins(database_url: str) -> None:
    async with opened(database_url, pool_size=RACERS) as transactions:
        for _ in range(5):
            job_id = await a_job(transactions)
            sessions = [await a_session(transactions) for _ in range(RACERS)]
            granted = await asyncio.gather(
                *(claim(transactions, claim_request(each, job_id)) for each in sessions)
            )
            assert sum(map(len, granted)) == 1
            assert (await the_job(transactions, job_id)).last_event_number == 2


async def test_one_of_many_reports_ends_the_attempt(database_url: str) -> None:
    async with opened(database_url, pool_size=RACERS) as transactions:
        for _ in range(5):
            lease = await a_lease(transactions)
            ended = await asyncio.gather(*(succeed(transactions, lease) for _ in range(RACERS)))
            assert sum(ended) == 1
            assert (await the_job(transactions, lease.ref.job_id)).last_event_number == 3


async def test_a_cancel_that_was_accepted_is_never_followed_by_success(database_url: str) -> None:
    async with opened(database_url, pool_size=4) as transactions:
        for _ in range(30):
            lease = await a_lease(transactions)
            racers = [cancel(transactions, lease), succeed(transactions, lease)]
            random.shuffle(racers)
            await asyncio.gather(*racers)
            job = await the_job(transactions, lease.ref.job_id)
            accepted = job.cancellation is not None
            assert job.state is (JobState.CANCELLED if accepted else JobState.SUCCEEDED)


async def test_one_key_that_many_race_for_stands_for_one_job(database_url: str) -> None:
    key = IdempotencyKey(Owner("owner"), JobType("synthetic"), "one-key-for-all")

    async with opened(database_url, pool_size=RACERS) as transactions:

        async def create() -> object:
            job = new_job()
            async with transactions.begin() as transaction:
                bound = await transaction.idempotency.claim(
                    [KeyClaim(key, b"f" * 32, job.job_id)], kept_for=timedelta(hours=24)
                )
                if bound[key].job_id == job.job_id:
                    await transaction.creation.create_jobs([job])
                return bound[key].job_id

        assert len(set(await asyncio.gather(*(create() for _ in range(50))))) == 1
        async with transactions.begin() as transaction:
            count = await transaction.connection.execute(sa.text("select count(*) from jobs"))
            assert count.scalar_one() == 1


async def test_heartbeats_ends_and_claims_of_the_same_jobs_do_not_deadlock(database_url: str) -> None:
    async with opened(database_url, pool_size=RACERS) as transactions:
        session = await a_session(transactions)
        leases = [await a_lease(transactions, session=session) for _ in range(30)]

        async def beat() -> None:
            for _ in range(10):
                async with transactions.begin() as transaction:
                    mixed = random.sample(leases, len(leases))
                    await transaction.leases.extend([Heartbeat(each.ref, 50) for each in mixed])

        async def end(part: list[Lease]) -> None:
            async with transactions.begin() as transaction:
                held = await transaction.attempts.lock([each.ref for each in random.sample(part, len(part))])
                ends = [
                    Ending(
                        ref,
                        AttemptEnd(AttemptOutcome.SUCCEEDED),
                        Finish(JobChange.SUCCEEDED, None, each.standing),
                    )
                    for ref, each in held.items()
                ]
                await transaction.states.end_attempts(ends)

        await asyncio.gather(*(beat() for _ in range(4)), *(end(leases[i::3] + leases[:5]) for i in range(3)))
        states = {(await the_job(transactions, each.ref.job_id)).state for each in leases}
        assert states == {JobState.SUCCEEDED}
