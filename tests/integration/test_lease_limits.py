"""Limits of job types hold in claims, whoever else claims at the same moment."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
import sqlalchemy as sa

from shared.domain.identity import JobId, JobType, Owner
from shared.domain.leases import TypeLimits
from shared.storage.dispatches import Dispatch
from shared.storage.transactions import Transactions
from tests.support.blocking import until_blocked
from tests.support.database_time import DatabaseTime
from tests.support.dispatching import jobs_of
from tests.support.limited import SYNTHETIC, claim_all, most_at_once, race_to_run, spans, succeed
from tests.support.storage import a_job, a_session, claim, claim_request, opened

RACERS = 8


async def a_few_of_each(transactions: Transactions, owners: int, each: int) -> list[JobId]:
    jobs = [await jobs_of(transactions, f"owner-{number}", each) for number in range(owners)]
    return [job_id for turn in zip(*jobs, strict=True) for job_id in turn]


async def test_racing_claims_never_lease_more_than_the_limit_and_reach_it(database_url: str) -> None:
    async with opened(database_url, pool_size=RACERS) as transactions:
        job_ids = await a_few_of_each(transactions, owners=4, each=15)
        await race_to_run(transactions, job_ids, TypeLimits(SYNTHETIC, at_once=3), racers=RACERS)

        found = [span for each in (await spans(transactions)).values() for span in each]
        assert len(found) == 60
        assert most_at_once(found) == 3


async def test_racing_claims_lease_one_job_of_each_owner_at_once_and_others_go_on(database_url: str) -> None:
    async with opened(database_url, pool_size=RACERS) as transactions:
        job_ids = await a_few_of_each(transactions, owners=4, each=15)
        limits = TypeLimits(SYNTHETIC, at_once_per_owner=1)
        await race_to_run(transactions, job_ids, limits, racers=RACERS)

        found = await spans(transactions)
        assert {owner: most_at_once(each) for owner, each in found.items()} == dict.fromkeys(found, 1)
        assert sum(map(len, found.values())) == 60
        assert 1 < most_at_once([span for each in found.values() for span in each]) <= 4


async def test_both_limits_of_a_type_hold_together(database_url: str) -> None:
    async with opened(database_url, pool_size=RACERS) as transactions:
        job_ids = await a_few_of_each(transactions, owners=4, each=15)
        limits = TypeLimits(SYNTHETIC, at_once=2, at_once_per_owner=1)
        await race_to_run(transactions, job_ids, limits, racers=RACERS)

        found = await spans(transactions)
        assert {most_at_once(each) for each in found.values()} == {1}
        assert most_at_once([span for each in found.values() for span in each]) == 2


async def test_a_claim_waits_for_the_one_before_it_and_counts_what_that_was_granted(
    transactions: Transactions,
) -> None:
    first, second = await jobs_of(transactions, "owner", 2)
    session = await a_session(transactions)
    limits = TypeLimits(SYNTHETIC, at_once=1)

    async with transactions.begin() as transaction:
        (lease,) = await transaction.states.claim([claim_request(session, first, limits=limits)])
        later = await until_blocked(transactions, claim_all(transactions, session, [second], limits))
    assert await later == []

    await succeed(transactions, lease)
    assert len(await claim_all(transactions, session, [second], limits)) == 1


async def test_claims_of_other_types_wait_for_nothing(transactions: Transactions) -> None:
    first, second = await jobs_of(transactions, "owner", 2)
    other = await a_job(transactions, job_type=JobType("other"))
    session = await a_session(transactions)

    async with transactions.begin() as transaction:
        limits = TypeLimits(SYNTHETIC, at_once=1)
        await transaction.states.claim([claim_request(session, first, limits=limits)])
        assert len(await claim_all(transactions, session, [second], None)) == 1
        assert len(await claim_all(transactions, session, [other], TypeLimits(JobType("other"), 1))) == 1


async def test_the_more_urgent_are_granted_first_then_those_that_were_named_first(
    transactions: Transactions,
) -> None:
    waiting = [await a_job(transactions, priority=priority) for priority in (50, 60, 40, 50)]
    session = await a_session(transactions)

    granted = await claim_all(transactions, session, waiting, TypeLimits(SYNTHETIC, at_once=2))

    assert {each.ref.job_id for each in granted} == {waiting[2], waiting[0]}


async def test_jobs_of_an_owner_at_its_limit_take_no_place_of_others(transactions: Transactions) -> None:
    busy = await jobs_of(transactions, "busy", 5, priority=40)
    others = [*await jobs_of(transactions, "one", 2), *await jobs_of(transactions, "two", 2)]
    session = await a_session(transactions)

    limits = TypeLimits(SYNTHETIC, at_once=3, at_once_per_owner=1)
    granted = await claim_all(transactions, session, [*busy, *others], limits)

    assert {each.ref.job_id for each in granted} == {busy[0], others[0], others[2]}


async def test_what_is_refused_by_one_type_s_limit_holds_up_no_other_type_of_the_claim(
    transactions: Transactions,
) -> None:
    limited = await jobs_of(transactions, "owner", 4)
    free = [await a_job(transactions, job_type=JobType("other")) for _ in range(4)]
    session = await a_session(transactions)
    limits = TypeLimits(SYNTHETIC, at_once=1)

    requests = [claim_request(session, each, limits=limits) for each in limited]
    requests += [claim_request(session, each) for each in free]
    granted = await claim(transactions, *requests)

    assert {each.ref.job_id for each in granted} == {limited[0], *free}


async def test_a_lower_limit_takes_no_lease_away_and_grants_none_before_enough_have_ended(
    transactions: Transactions,
) -> None:
    job_ids = await jobs_of(transactions, "owner", 5)
    session = await a_session(transactions)
    leases = await claim_all(transactions, session, job_ids[:3], TypeLimits(SYNTHETIC, at_once=3))
    lower = TypeLimits(SYNTHETIC, at_once=2)

    granted = [await claim_all(transactions, session, job_ids[3:], lower)]
    for lease in leases[:2]:
        await succeed(transactions, lease)
        granted.append(await claim_all(transactions, session, job_ids[3:], lower))

    assert [len(each) for each in granted] == [0, 0, 1]


async def test_leases_from_a_time_without_limits_are_not_counted(transactions: Transactions) -> None:
    before, first, second = await jobs_of(transactions, "owner", 3)
    session = await a_session(transactions)
    await claim_all(transactions, session, [before], None)

    granted = await claim_all(transactions, session, [first, second], TypeLimits(SYNTHETIC, at_once=1))

    assert [each.ref.job_id for each in granted] == [first]


@pytest.mark.parametrize(("per_second", "burst"), [(0.01, 1), (1, 1), (5, 5), (7.9, 7)])
async def test_a_rate_grants_a_second_s_worth_at_once_and_never_saves_up_more(
    transactions: Transactions, database_time: DatabaseTime, per_second: float, burst: int
) -> None:
    job_ids = await jobs_of(transactions, "owner", 40)
    session = await a_session(transactions)
    limits = TypeLimits(SYNTHETIC, per_second=per_second)

    for _ in range(2):
        granted = await claim_all(transactions, session, job_ids, limits)
        job_ids = [each for each in job_ids if each not in {lease.ref.job_id for lease in granted}]
        assert len(granted) == burst
        await database_time.jump(timedelta(hours=1))


async def test_a_rate_grants_as_many_as_it_says_over_time(
    transactions: Transactions, database_time: DatabaseTime
) -> None:
    job_ids = await jobs_of(transactions, "owner", 40)
    session = await a_session(transactions)
    limits = TypeLimits(SYNTHETIC, per_second=0.01)

    granted = []
    for seconds in (0, 40, 40, 40, 79, 99, 100, 100):
        await database_time.jump(timedelta(seconds=seconds))
        leases = await claim_all(transactions, session, job_ids, limits)
        job_ids = [each for each in job_ids if each not in {lease.ref.job_id for lease in leases}]
        granted.append(len(leases))

    # Tokens come 100 s apart: at 0, then once 100 have passed since the last one was spent or ready.
    assert granted == [1, 0, 0, 1, 0, 1, 1, 1]


async def test_a_rate_that_is_raised_counts_at_once(transactions: Transactions) -> None:
    job_ids = await jobs_of(transactions, "owner", 20)
    session = await a_session(transactions)

    slow = await claim_all(transactions, session, job_ids[:10], TypeLimits(SYNTHETIC, per_second=0.01))
    fast = await claim_all(transactions, session, job_ids[10:], TypeLimits(SYNTHETIC, per_second=5))

    assert (len(slow), len(fast)) == (1, 5)


async def test_racing_claims_never_spend_a_token_twice(database_url: str) -> None:
    async with opened(database_url, pool_size=RACERS) as transactions:
        job_ids = await jobs_of(transactions, "owner", 10 * RACERS)
        sessions = [await a_session(transactions) for _ in range(RACERS)]
        limits = TypeLimits(SYNTHETIC, per_second=12)
        for turn in range(2):
            claims = [
                claim_all(transactions, session, job_ids[number * 10 : number * 10 + 10], limits)
                for number, session in enumerate(sessions)
            ]
            await asyncio.gather(*claims)
            if turn == 0:
                await asyncio.sleep(0.3)

        times = sorted(await grant_times(transactions))
        for first, start in enumerate(times):
            for last, end in enumerate(times[first:], start=first):
                assert last - first + 1 <= 12 + 12 * (end - start).total_seconds() + 0.001
        assert len(times) >= 12 + 3


async def grant_times(transactions: Transactions) -> list:  # type: ignore[type-arg]
    async with transactions.begin() as transaction:
        rows = await transaction.connection.execute(sa.text("select grant_time from leases"))
        return [row.grant_time for row in rows]


@pytest.mark.parametrize(
    "limits",
    [
        TypeLimits(SYNTHETIC, at_once=1),
        TypeLimits(SYNTHETIC, at_once_per_owner=1),
        TypeLimits(SYNTHETIC, per_second=0.01),
    ],
    ids=["at once", "at once per owner", "rate"],
)
async def test_what_a_limit_refuses_waits_again_in_its_place(
    transactions: Transactions, limits: TypeLimits
) -> None:
    first, second = await jobs_of(transactions, "owner", 1), await jobs_of(transactions, "owner", 1)
    third = await jobs_of(transactions, "owner", 1)
    session = await a_session(transactions)
    rows = await delivered(transactions, 2)
    assert [each.job_id for each in rows] == first + second

    (lease,) = await claim_all(transactions, session, first + second, limits)

    assert lease.ref.job_id == first[0]
    assert [each.job_id for each in await delivered(transactions, 2)] == second + third


async def delivered(transactions: Transactions, count: int) -> list[Dispatch]:
    """Hand out rows, as a dispatcher does that knows of no limits."""
    async with transactions.begin() as transaction:
        owners = await transaction.dispatches.waiting_owners({})
        rows = await transaction.dispatches.lock_due(owners, dict.fromkeys(owners, count))
        await transaction.dispatches.mark_delivered([each.outbox_id for each in rows])
    return rows


async def test_a_lease_says_whose_it_is(transactions: Transactions) -> None:
    limited, free = await a_job(transactions, owner=Owner("ada")), await a_job(transactions)
    session = await a_session(transactions)
    await claim_all(transactions, session, [limited], TypeLimits(SYNTHETIC, at_once=1))
    await claim_all(transactions, session, [free], None)

    async with transactions.begin() as transaction:
        rows = await transaction.connection.execute(
            sa.text("select job_id, job_type, owner, limited from leases")
        )
        assert {row.job_id: tuple(row)[1:] for row in rows} == {
            limited: ("synthetic", "ada", True),
            free: ("synthetic", "owner", False),
        }
