"""A newcomer's job starts within the next leases of its stream, however much others have waiting."""

from __future__ import annotations

import pytest

from job_api.loops.outbox_dispatcher import MARK_MIN, OutboxDispatcher
from shared.domain.identity import JobId
from shared.storage.transactions import Transactions
from shared.streams.lease_streams import LeaseStreams
from tests.support.dispatching import jobs_of
from tests.support.limited import claim_all
from tests.support.storage import STREAM, Session, a_session

BACKLOG = 10_000
OWNERS_WAITING = 2


async def grant(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher, session: Session
) -> list[JobId]:
    """Grant up to three leases, as to executors with three credits, after the dispatcher had its turn."""
    await dispatcher.step()
    entries = await streams.take([(STREAM, 3)], "reader")
    granted = await claim_all(transactions, session, [each.job_id for each in entries], None)
    await streams.settle(entries)
    leased = {each.ref.job_id for each in granted}
    return [each.job_id for each in entries if each.job_id in leased]


@pytest.mark.parametrize("demand", [None, 64])
async def test_a_newcomer_waits_for_the_mark_and_the_owners_waiting_and_not_for_ten_thousand_jobs(
    transactions: Transactions, streams: LeaseStreams, dispatcher: OutboxDispatcher, demand: int | None
) -> None:
    for _ in range(BACKLOG // 1_000):
        await jobs_of(transactions, "a", 1_000)
    session = await a_session(transactions)
    if demand is not None:
        await streams.tell_demand("worker", {STREAM: demand})
    for _ in range(5):
        await grant(transactions, streams, dispatcher, session)
    await dispatcher.step()
    assert (await streams.depths([STREAM]))[STREAM].length == (demand or MARK_MIN)

    (newcomer,) = await jobs_of(transactions, "b", 1)
    leases = list[JobId]()
    while newcomer not in leases:
        granted = await grant(transactions, streams, dispatcher, session)
        assert granted
        leases += granted

    assert leases.index(newcomer) + 1 <= (demand or MARK_MIN) + OWNERS_WAITING
