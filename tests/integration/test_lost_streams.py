"""The dispatcher when Redis has lost a stream: nobody has to wait for the sweep."""

from __future__ import annotations

from redis.asyncio import Redis

from job_api.loops.outbox_dispatcher import OutboxDispatcher
from shared.domain.identity import Owner
from shared.storage.transactions import Transactions
from shared.streams.lease_streams import LeaseStreams
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
