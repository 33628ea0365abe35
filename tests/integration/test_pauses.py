"""Pauses: once one is committed nothing of the queue or job type is leased; nothing else waits for it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
import sqlalchemy as sa

from job_api.loops.dispatch_sweep import DispatchSweep
from job_api.loops.outbox_dispatcher import MARK_MIN, OutboxDispatcher
from shared.domain.errors import PlatformUnavailable
from shared.domain.identity import JobType, Owner, QueueName, StreamName
from shared.domain.pauses import Pausable, PauseKind
from shared.storage.database import COMMAND_SECONDS
from shared.storage.transactions import Transactions
from shared.streams.lease_streams import LeaseStreams
from tests.support.blocking import until_blocked
from tests.support.database_time import DatabaseTime
from tests.support.dispatching import jobs_of, take
from tests.support.limited import SYNTHETIC, claim_all
from tests.support.storage import STREAM, a_job, a_session, claim_request, opened

DRILL = Pausable(PauseKind.QUEUE, QueueName("drill"))
TYPE = Pausable(PauseKind.JOB_TYPE, SYNTHETIC)
OTHER_STREAM = StreamName("calm:other:1.1:2")


async def pause(transactions: Transactions, pausable: Pausable, note: str = "") -> bool:
    async with transactions.begin() as transaction:
        return await transaction.pauses.add(pausable, subject=Owner("root"), note=note)


async def resume(transactions: Transactions, pausable: Pausable) -> timedelta | None:
    async with transactions.begin() as transaction:
        return await transaction.pauses.remove(pausable)


async def leases(transactions: Transactions) -> int:
    async with transactions.begin() as transaction:
        rows = await transaction.connection.execute(sa.text("select count(*) as leases from leases"))
        leases: int = rows.one().leases
        return leases


@pytest.mark.parametrize("pausable", [DRILL, TYPE])
async def test_what_is_paused_is_not_leased_and_what_is_not_is(
    transactions: Transactions, pausable: Pausable
) -> None:
    paused = await a_job(transactions)
    free = await a_job(transactions, queue=QueueName("calm"), job_type=JobType("other"), stream=OTHER_STREAM)
    session = await a_session(transactions)
    await pause(transactions, pausable)

    granted = await claim_all(transactions, session, [paused, free], None)
    assert [each.ref.job_id for each in granted] == [free]

    span = await resume(transactions, pausable)
    assert span is not None
    assert span > timedelta(0)
    assert len(await claim_all(transactions, session, [paused], None)) == 1


async def test_the_first_pause_stays_and_a_resumed_one_is_gone(transactions: Transactions) -> None:
    assert await pause(transactions, DRILL, "the disk is full")
    assert not await pause(transactions, DRILL, "another reason")
    async with transactions.begin() as transaction:
        assert [each.note for each in (await transaction.pauses.all()).values()] == ["the disk is full"]

    assert await resume(transactions, TYPE) is None
    assert await resume(transactions, DRILL) is not None
    assert await resume(transactions, DRILL) is None


async def test_a_pause_waits_for_the_claims_that_began_before_it_and_later_ones_see_it(
    transactions: Transactions,
) -> None:
    first, second = await jobs_of(transactions, "owner", 2)
    session = await a_session(transactions)

    async with transactions.begin() as transaction:
        assert await transaction.states.claim([claim_request(session, first)])
        pausing = await until_blocked(transactions, pause(transactions, DRILL))
        claiming = await until_blocked(
            transactions, claim_all(transactions, session, [second], None), waiting=2
        )
        assert not pausing.done()
    assert await pausing
    assert await claiming == []


async def test_a_pause_gives_up_on_a_claim_that_does_not_end_and_holds_up_others_no_longer(
    transactions: Transactions,
) -> None:
    first, second = await jobs_of(transactions, "owner", 2)
    session = await a_session(transactions)

    async with transactions.begin() as transaction:
        assert await transaction.states.claim([claim_request(session, first)])
        pausing = await until_blocked(transactions, pause(transactions, DRILL))
        claiming = await until_blocked(
            transactions, claim_all(transactions, session, [second], None), waiting=2
        )
        async with asyncio.timeout(COMMAND_SECONDS / 2):
            with pytest.raises(PlatformUnavailable):
                await pausing
            assert len(await claiming) == 1


async def test_nothing_is_leased_once_a_pause_is_committed_however_many_claim(database_url: str) -> None:
    async with opened(database_url, pool_size=8) as transactions:
        waiting = {each for turn in range(10) for each in await jobs_of(transactions, f"{turn}", 100)}
        well_on, stop = asyncio.Event(), asyncio.Event()

        async def go_on_claiming() -> None:
            session = await a_session(transactions)
            while waiting and not stop.is_set():
                wanted = [waiting.pop() for _ in range(min(5, len(waiting)))]
                granted = await claim_all(transactions, session, wanted, None)
                waiting.update({*wanted} - {each.ref.job_id for each in granted})
                if len(waiting) < 950:
                    well_on.set()

        claiming = [asyncio.create_task(go_on_claiming()) for _ in range(6)]
        await well_on.wait()
        await pause(transactions, DRILL)
        leased = await leases(transactions)
        await asyncio.sleep(0.3)
        stop.set()
        await asyncio.gather(*claiming)

        assert 0 < leased < 1000
        assert await leases(transactions) == leased


@pytest.mark.parametrize("pausable", [DRILL, TYPE])
async def test_what_is_paused_is_not_delivered_and_goes_on_in_its_order(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher, pausable: Pausable
) -> None:
    paused = await jobs_of(transactions, "owner", 20)
    free = await a_job(transactions, queue=QueueName("calm"), job_type=JobType("other"), stream=OTHER_STREAM)
    session = await a_session(transactions)
    await dispatcher.step()
    await pause(transactions, pausable)

    delivered = [each.job_id for each in await take(streams)]
    assert delivered == paused[:MARK_MIN]
    assert await claim_all(transactions, session, delivered, None) == []
    assert await dispatcher.step() is False
    assert await take(streams) == []
    assert [each.job_id for each in await take(streams, OTHER_STREAM)] == [free]

    await resume(transactions, pausable)
    await dispatcher.step()
    assert [each.job_id for each in await take(streams)] == paused[:MARK_MIN]


async def test_the_sweep_and_a_pause_do_not_keep_each_other_busy(
    transactions: Transactions,
    streams: LeaseStreams,
    dispatcher: OutboxDispatcher,
    database_time: DatabaseTime,
) -> None:
    sweep = DispatchSweep(transactions, streams, unclaimed_age=timedelta(seconds=30))
    await jobs_of(transactions, "owner", 20)
    await dispatcher.step()
    await pause(transactions, DRILL)

    await database_time.jump(timedelta(seconds=31))
    moved = []
    for _ in range(3):
        await sweep.step()
        await dispatcher.step()
        async with transactions.begin() as transaction:
            moved.append(await transaction.dispatches.delivered_streams(age=timedelta(0)))
    assert moved == [{}, {}, {}]

    await resume(transactions, DRILL)
    session = await a_session(transactions)
    granted = await claim_all(transactions, session, [each.job_id for each in await take(streams)], None)
    assert len(granted) == MARK_MIN
    await dispatcher.step()
    assert (await streams.depths([STREAM]))[STREAM].length == MARK_MIN
