"""Many connections at the same batches: the counters are exact at every moment that anybody can see, and
nobody waits in a circle.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.batches import OPEN_STATES, BatchCounters, BatchEvent, BatchState
from shared.domain.errors import BatchStateConflict
from shared.domain.identity import BatchId, JobId
from shared.domain.leases import LeaseRef
from shared.storage.attempts import HeldAttempt
from shared.storage.transactions import Transactions
from shared.streams.wake_ups import WakeUps
from tests.support.batch_calls import BatchCalls
from tests.support.batches import SUCCESS, a_batch, end, events_of, faults_of_batches, jobs_of, the_batch
from tests.support.storage import (
    FINAL,
    RETRYABLE,
    Session,
    a_session,
    claim,
    claim_request,
    ending_of,
    opened,
)

ACTORS = 10
FEW = 6
ENDS = (
    *[SUCCESS] * 6,
    *[AttemptEnd(AttemptOutcome.FAILED, FINAL)] * 3,
    AttemptEnd(AttemptOutcome.FAILED, RETRYABLE),
    AttemptEnd(AttemptOutcome.TIMED_OUT, RETRYABLE),
    AttemptEnd(AttemptOutcome.LOST),
    AttemptEnd(AttemptOutcome.GIVEN_BACK),
)
_WAITING = sa.text("""
select j.job_id, j.attempt from jobs j
where j.batch_id is not null and j.state in ('QUEUED', 'RUNNING')
    and not exists (select from leases l where l.job_id = j.job_id)
order by random() limit :few
""")
_LEASED = sa.text("select job_id, token from leases order by random() limit :few")


@pytest.fixture
async def transactions(database_url: str) -> AsyncIterator[Transactions]:
    async with opened(database_url, pool_size=ACTORS + 2) as transactions:
        yield transactions


class Racer:
    """One of many; whatever it wants may have been done by another meanwhile."""

    def __init__(
        self, transactions: Transactions, calls: BatchCalls, batches: list[BatchId], draw: random.Random
    ) -> None:
        self._transactions = transactions
        self._calls = calls
        self._batches = batches
        self._draw = draw

    async def act(self, until: float) -> None:
        session = await a_session(self._transactions)
        actions = {
            self.claim: 10,
            self.end: 10,
            self.cancel_jobs: 2,
            self.ask_to_stop: 1,
            self.retry: 3,
            self.cancel_batch: 1,
            self.create: 2,
        }
        while asyncio.get_running_loop().time() < until:
            (action,) = self._draw.choices(list(actions), list(actions.values()))
            await action(session)

    async def claim(self, session: Session) -> None:
        waiting = await self._found(_WAITING)
        requests = [claim_request(session, JobId(job_id), attempt=n + 1) for job_id, n in waiting]
        await claim(self._transactions, *requests)

    async def end(self, _: Session) -> None:
        leases = [LeaseRef(JobId(job_id), token) for job_id, token in await self._found(_LEASED)]
        async with self._transactions.begin() as transaction:
            held = await transaction.attempts.lock(leases)
            ends = [ending_of(each, self._end_of(each)) for each in held.values()]
            assert len(await transaction.states.end_attempts(ends)) == len(held)

    def _end_of(self, held: HeldAttempt) -> AttemptEnd:
        return _last_end(held) if held.standing.cancel_requested else self._draw.choice(ENDS)

    async def cancel_jobs(self, _: Session) -> None:
        waiting = [JobId(job_id) for job_id, _ in await self._found(_WAITING)]
        async with self._transactions.begin() as transaction:
            await transaction.states.cancel_waiting(waiting[:2])

    async def ask_to_stop(self, _: Session) -> None:
        for job_id, _token in (await self._found(_LEASED))[:1]:
            async with self._transactions.begin() as transaction:
                await transaction.jobs.lock(JobId(job_id))
                await transaction.leases.request_cancels([JobId(job_id)])

    async def retry(self, _: Session) -> None:
        batch_id = self._draw.choice(self._batches)
        with suppress(BatchStateConflict):
            await self._calls.retry(batch_id, *self._draw.choice(([], [], [self._draw.randint(1, 5)])))

    async def cancel_batch(self, _: Session) -> None:
        with suppress(BatchStateConflict):
            await self._calls.cancel(self._draw.choice(self._batches))

    async def create(self, _: Session) -> None:
        self._batches.append(await a_batch(self._transactions, self._draw.randint(1, 25)))

    async def _found(self, statement: sa.TextClause) -> list[tuple[Any, ...]]:
        async with self._transactions.begin() as transaction:
            rows = await transaction.connection.execute(statement, {"few": FEW})
            return [tuple(row) for row in rows]


async def watch_counters(transactions: Transactions, done: asyncio.Event) -> int:
    """Compare all counters with the items again and again; return how often."""
    looks = 0
    while not done.is_set():
        assert await faults_of_batches(transactions) == []
        looks += 1
    return looks


async def race(transactions: Transactions, calls: BatchCalls, *, seed: int, seconds: float) -> list[BatchId]:
    """Let all act at once while somebody watches; return the batches."""
    batches = [await a_batch(transactions, 20) for _ in range(4)]
    done = asyncio.Event()
    until = asyncio.get_running_loop().time() + seconds
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch_counters(transactions, done))
        async with asyncio.TaskGroup() as racers:
            for number in range(ACTORS):
                racer = Racer(transactions, calls, batches, random.Random(seed * 100 + number))
                racers.create_task(racer.act(until))
        done.set()
    assert watching.result() > 10
    return batches


async def bring_to_its_end(transactions: Transactions) -> None:
    """Let all that is open succeed, in as many rounds as it takes."""
    session = await a_session(transactions)
    while True:
        async with transactions.begin() as transaction:
            waiting = list(await transaction.connection.execute(_WAITING, {"few": 500}))
            leased = list(await transaction.connection.execute(_LEASED, {"few": 500}))
        if not waiting and not leased:
            return
        requests = [claim_request(session, each.job_id, attempt=each.attempt + 1) for each in waiting]
        await claim(transactions, *requests)
        async with transactions.begin() as transaction:
            held = await transaction.attempts.lock([LeaseRef(each.job_id, each.token) for each in leased])
            ends = [ending_of(each, _last_end(each)) for each in held.values()]
            await transaction.states.end_attempts(ends)


def _last_end(held: HeldAttempt) -> AttemptEnd:
    return AttemptEnd(AttemptOutcome.CANCELLED) if held.standing.cancel_requested else SUCCESS


def check_story(events: list[BatchEvent], size: int) -> int:
    """Follow a batch's events from one to the next; return how often it settled."""
    for before, after in pairwise(events):
        assert sum(vars_of(after.counters)) == size
        assert after.event_time >= before.event_time
        if after.item:
            grown = [n - m for m, n in zip(vars_of(before.counters), vars_of(after.counters), strict=True)]
            assert (sum(grown[2:]), max(grown[2:])) == (1, 1)
            assert after.state in OPEN_STATES
        elif after.state not in OPEN_STATES:
            assert (after.counters.waiting, after.counters.running) == (0, 0)
    return sum(each.state not in OPEN_STATES for each in events)


def vars_of(counters: BatchCounters) -> list[int]:
    return [counters.waiting, counters.running, counters.succeeded, counters.failed, counters.skipped]


async def judge(transactions: Transactions, batches: list[BatchId]) -> None:
    assert await faults_of_batches(transactions) == []
    settled_otherwise = set[BatchState]()
    for batch_id in batches:
        batch = await the_batch(transactions, batch_id)
        settlings = check_story(await events_of(transactions, batch_id), batch.size)
        assert settlings >= 1
        assert (batch.state is BatchState.CANCELLED) or batch.cancel_request_time is None
        settled_otherwise.add(batch.state)
        async with transactions.begin() as transaction:
            items = await transaction.batches.items(batch_id, states=frozenset(), after=0, limit=1_000)
        assert len({each.job.job_id for each in items}) == batch.size
    assert len(settled_otherwise) > 1


@pytest.mark.parametrize("seed", [1])
async def test_counters_are_exact_at_every_moment_whoever_races(
    transactions: Transactions, wake_ups: WakeUps, seed: int
) -> None:
    batches = await race(transactions, BatchCalls(transactions, wake_ups), seed=seed, seconds=5)
    await bring_to_its_end(transactions)
    await judge(transactions, batches)


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2, 8))
async def test_counters_are_exact_for_a_long_time(
    transactions: Transactions, wake_ups: WakeUps, seed: int
) -> None:
    batches = await race(transactions, BatchCalls(transactions, wake_ups), seed=seed, seconds=30)
    await bring_to_its_end(transactions)
    await judge(transactions, batches)


async def test_of_many_ends_at_once_one_settles_the_batch(
    transactions: Transactions, wake_ups: WakeUps
) -> None:
    batch_id = await a_batch(transactions, ACTORS)
    await asyncio.gather(*(end(transactions, batch_id, {item: SUCCESS}) for item in range(1, ACTORS + 1)))

    states = [each.state for each in await events_of(transactions, batch_id)]
    assert states.count(BatchState.AWAITING_REVIEW) == 1
    assert states[-1] is BatchState.AWAITING_REVIEW
    assert await faults_of_batches(transactions) == []


async def test_of_many_retries_at_once_one_runs_each_item_again(
    transactions: Transactions, wake_ups: WakeUps
) -> None:
    calls = BatchCalls(transactions, wake_ups)
    batch_id = await a_batch(transactions, 4)
    await end(
        transactions, batch_id, {each: AttemptEnd(AttemptOutcome.FAILED, FINAL) for each in range(1, 5)}
    )
    old = await jobs_of(transactions, batch_id)
    calls_at_once = [calls.retry(batch_id) for _ in range(4)] + [calls.retry(batch_id, 2) for _ in range(4)]
    outcomes = await asyncio.gather(*calls_at_once, return_exceptions=True)

    refused = [each for each in outcomes if isinstance(each, BaseException)]
    assert all(isinstance(each, BatchStateConflict) for each in refused)
    assert sum(each.count for each in outcomes if not isinstance(each, BaseException)) == 4
    assert not set(await jobs_of(transactions, batch_id)) & set(old)
    assert await faults_of_batches(transactions) == []
