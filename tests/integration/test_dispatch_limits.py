"""The dispatcher counts limits before it fills streams, so nothing at a head waits for a limit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from job_api.loops.outbox_dispatcher import MARK_MIN, OutboxDispatcher
from shared.domain.identity import JobId, JobType, Owner, StreamName
from shared.domain.leases import Lease, TypeLimits
from shared.storage.dispatch_statements import OWNERS_PER_STREAM_MAX
from shared.storage.transactions import Transactions
from shared.streams.lease_streams import Entry, LeaseStreams
from tests.support.database_time import DatabaseTime
from tests.support.dispatching import jobs_of
from tests.support.limited import SYNTHETIC, claim_all, succeed
from tests.support.storage import STREAM, Session, a_job, a_session, new_job

OTHER_TYPE, OTHER = JobType("other"), StreamName("drill:other:1.1:2")
URGENT, NEWER = StreamName("drill:synthetic:1.1:0"), StreamName("drill:synthetic:2.1:2")


class Flow:
    """A dispatcher with limits, and a worker that takes, claims and ends what it delivers."""

    def __init__(
        self, transactions: Transactions, streams: LeaseStreams, session: Session, limits: TypeLimits
    ) -> None:
        self.transactions = transactions
        self.streams = streams
        self._session = session
        self._limits = limits
        self._dispatcher = OutboxDispatcher(transactions, streams, {limits.job_type: limits})

    async def dispatch(self) -> Mapping[StreamName, int]:
        """Dispatch until there is no more to do, and return the lengths of all streams that are there."""
        for _ in range(20):
            if not await self._dispatcher.step():
                break
        else:
            raise AssertionError("the dispatcher never says that there is no more")
        depths = await self.streams.depths([STREAM, URGENT, NEWER, OTHER])
        return {stream: depth.length for stream, depth in depths.items() if depth.length}

    async def take(self, stream: StreamName = STREAM, count: int = 100) -> list[Entry]:
        entries = await self.streams.take([(stream, count)], "reader")
        await self.streams.settle(entries)
        return entries

    async def claim(self, stream: StreamName = STREAM, count: int = 100) -> list[Lease]:
        entries = await self.take(stream, count)
        job_ids = [each.job_id for each in entries]
        return await claim_all(self.transactions, self._session, job_ids, self._limits)


@pytest.fixture
async def session(transactions: Transactions) -> Session:
    return await a_session(transactions)


async def others(transactions: Transactions, count: int, **fields: Any) -> list[JobId]:
    return [await a_job(transactions, **fields) for _ in range(count)]


async def test_a_type_at_its_limit_waits_in_the_database_and_no_other_type_waits_for_it(
    transactions: Transactions, streams: LeaseStreams, session: Session
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, at_once=2))
    await jobs_of(transactions, "owner", 20)
    await others(transactions, 20, job_type=OTHER_TYPE, stream=OTHER)

    assert await flow.dispatch() == {STREAM: 2, OTHER: MARK_MIN}

    first, second = await flow.claim()
    assert await flow.dispatch() == {OTHER: MARK_MIN}

    await succeed(transactions, first)
    assert await flow.dispatch() == {STREAM: 1, OTHER: MARK_MIN}
    await succeed(transactions, second)
    assert await flow.dispatch() == {STREAM: 2, OTHER: MARK_MIN}


async def test_an_owner_at_its_limit_holds_up_no_other_owner(
    transactions: Transactions, streams: LeaseStreams, session: Session
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, at_once_per_owner=1))
    await jobs_of(transactions, "busy", 50, priority=40)
    assert await flow.dispatch() == {STREAM: 1}
    assert len(await flow.claim()) == 1
    assert await flow.dispatch() == {}

    late = await jobs_of(transactions, "late", 2)
    assert await flow.dispatch() == {STREAM: 1}
    assert [each.ref.job_id for each in await flow.claim()] == late[:1]
    assert await flow.dispatch() == {}


async def test_owners_at_their_limit_are_passed_over_however_many_they_are(
    transactions: Transactions, streams: LeaseStreams, session: Session
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, at_once_per_owner=1))
    busy = 3 * OWNERS_PER_STREAM_MAX
    jobs = [new_job(owner=Owner(f"busy-{number:03}")) for number in range(busy) for _ in range(2)]
    async with transactions.begin() as transaction:
        await transaction.creation.create_jobs(jobs)
    leases = list[Lease]()
    while await flow.dispatch():
        leases += await flow.claim()
    assert len(leases) == busy

    (late,) = await jobs_of(transactions, "late", 1)
    assert await flow.dispatch() == {STREAM: 1}
    assert [each.ref.job_id for each in await flow.claim()] == [late]


async def test_owners_take_turns_also_where_a_limit_lets_one_job_through_at_a_time(
    transactions: Transactions, streams: LeaseStreams, session: Session
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, at_once=1))
    owner_of: dict[JobId, str] = {}
    for owner in "abc":
        owner_of |= dict.fromkeys(await jobs_of(transactions, owner, 3), owner)

    turns = ""
    for _ in range(9):
        await flow.dispatch()
        (lease,) = await flow.claim()
        turns += owner_of[lease.ref.job_id]
        await succeed(transactions, lease)

    assert turns == "abcabcabc"


async def test_the_more_urgent_stream_of_a_type_gets_what_its_limit_leaves(
    transactions: Transactions, streams: LeaseStreams, session: Session
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, at_once=5))
    await jobs_of(transactions, "owner", 20)
    await others(transactions, 3, stream=URGENT, priority=5)

    assert await flow.dispatch() == {URGENT: 3, STREAM: 2}


async def test_an_owner_s_urgent_job_gets_what_its_limit_leaves(
    transactions: Transactions, streams: LeaseStreams, session: Session
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, at_once_per_owner=2))
    await jobs_of(transactions, "owner", 20)
    await jobs_of(transactions, "another", 1)
    await others(transactions, 1, stream=URGENT, priority=5)

    assert await flow.dispatch() == {URGENT: 1, STREAM: 2}


async def test_an_urgent_job_that_comes_late_waits_for_a_lease_and_not_for_what_was_delivered_before(
    transactions: Transactions, streams: LeaseStreams, session: Session
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, at_once=2))
    await jobs_of(transactions, "owner", 20)
    assert await flow.dispatch() == {STREAM: 2}

    urgent = await others(transactions, 1, stream=URGENT, priority=5)
    assert await flow.dispatch() == {URGENT: 1, STREAM: 2}
    assert [each.ref.job_id for each in await flow.claim(URGENT)] == urgent
    assert len(await flow.claim()) == 1  # the other one was refused, and waits in the database again
    assert await flow.dispatch() == {}


@pytest.mark.parametrize("others_demand", [{}, {STREAM: 0}], ids=["there is none", "they are busy"])
async def test_jobs_that_no_executor_can_take_hold_up_none_that_one_can(
    transactions: Transactions,
    streams: LeaseStreams,
    session: Session,
    others_demand: dict[StreamName, int],
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, at_once=2))
    await jobs_of(transactions, "owner", 5)
    assert await flow.dispatch() == {STREAM: 2}

    newer = await others(transactions, 3, stream=NEWER, input_schema_version=2)
    await streams.tell_demand("worker", {NEWER: 4, **others_demand})
    assert await flow.dispatch() == {STREAM: 2, NEWER: 2}
    assert {each.ref.job_id for each in await flow.claim(NEWER)} == set(newer[:2])


async def test_while_all_executors_are_busy_the_more_urgent_keep_what_a_limit_leaves(
    transactions: Transactions, streams: LeaseStreams, session: Session
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, at_once=2))
    await others(transactions, 2, stream=URGENT, priority=5)
    assert await flow.dispatch() == {URGENT: 2}

    await jobs_of(transactions, "owner", 5)
    await streams.tell_demand("worker", {STREAM: 0, URGENT: 0})
    assert await flow.dispatch() == {URGENT: 2}


async def test_urgent_jobs_that_are_not_due_keep_no_room_from_those_that_are(
    transactions: Transactions, streams: LeaseStreams, session: Session
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, at_once=2))
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await others(transactions, 3, stream=URGENT, priority=5, run_time=tomorrow)
    await jobs_of(transactions, "owner", 5)

    assert await flow.dispatch() == {STREAM: 2}


async def test_a_rate_is_delivered_as_its_tokens_come(
    transactions: Transactions, streams: LeaseStreams, session: Session, database_time: DatabaseTime
) -> None:
    flow = Flow(transactions, streams, session, TypeLimits(SYNTHETIC, per_second=0.01))
    await jobs_of(transactions, "owner", 5)

    assert await flow.dispatch() == {STREAM: 1}
    assert len(await flow.claim()) == 1
    assert await flow.dispatch() == {}
    await database_time.jump(timedelta(seconds=101))
    assert await flow.dispatch() == {STREAM: 1}
    assert len(await flow.claim()) == 1


async def test_two_dispatchers_may_deliver_too_much_and_the_claim_refuses_it(
    transactions: Transactions, streams: LeaseStreams, session: Session
) -> None:
    limits = TypeLimits(SYNTHETIC, at_once=2)
    flow = Flow(transactions, streams, session, limits)
    await jobs_of(transactions, "owner", 5)
    async with transactions.begin() as other:
        owners = await other.dispatches.waiting_owners({})
        assert await flow.dispatch() == {STREAM: 2}
        rows = await other.dispatches.lock_due(owners, {STREAM: 2})
        await streams.append(rows)
        await other.dispatches.mark_delivered([each.outbox_id for each in rows])

    assert await flow.dispatch() == {STREAM: 4}
    assert len(await flow.claim()) == 2
    assert await flow.dispatch() == {}
