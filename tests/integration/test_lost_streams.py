"""The dispatcher when Redis has lost a stream: nobody has to wait for the sweep."""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis

from job_api.loops.outbox_dispatcher import OutboxDispatcher
from shared.domain.identity import Owner
from shared.storage.transactions import Transactions
from shared.streams.lease_streams import Appended, LeaseStreams, WaitingAttempt
from tests.support.dispatching import jobs_of, take
from tests.support.redis_keys import wipe
from tests.support.storage import STREAM, a_job


async def test_jobs_in_a_lost_stream_are_sent_again_at_once_whoever_s_job_comes_next(
    transactions: Transactions, streams: LeaseStreams, redis: Redis, redis_prefix: str
) -> None:
    dispatcher = OutboxDispatcher(transactions, streams)
    lost = await a_job(transactions, owner=Owner("b"))
    await dispatcher.step()
    await wipe(redis, redis_prefix)
    following = await a_job(transactions, owner=Owner("a"))

    while await dispatcher.step():
        pass

    assert {each.job_id for each in await streams.take([(STREAM, 9)], "reader")} == {lost, following}


async def test_rows_of_a_stream_that_redis_lost_are_sent_again_with_the_next_job(
    transactions: Transactions,
    streams: LeaseStreams,
    dispatcher: OutboxDispatcher,
    redis: Redis,
    redis_prefix: str,
) -> None:
    older = await jobs_of(transactions, "owner", 3)
    await dispatcher.step()
    await wipe(redis, redis_prefix)
    (newer,) = await jobs_of(transactions, "owner", 1)

    await dispatcher.step()

    assert [each.job_id for each in await take(streams)] == [*older, newer]


async def test_rows_are_sent_again_when_the_stream_vanishes_between_look_and_append(
    transactions: Transactions,
    streams: LeaseStreams,
    dispatcher: OutboxDispatcher,
    redis: Redis,
    redis_prefix: str,
) -> None:
    class LateWipe(LeaseStreams):
        async def append(self, attempts: Sequence[WaitingAttempt]) -> Appended:
            await wipe(redis, redis_prefix)
            return await super().append(attempts)

    older = await jobs_of(transactions, "owner", 3)
    await dispatcher.step()
    (newer,) = await jobs_of(transactions, "owner", 1)

    await OutboxDispatcher(transactions, LateWipe(redis, prefix=redis_prefix)).step()
    await dispatcher.step()

    assert [each.job_id for each in await take(streams)] == [newer, *older]
