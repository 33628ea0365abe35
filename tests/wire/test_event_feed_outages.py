"""The feed of events while Redis or Postgres is away."""

from __future__ import annotations

import asyncio

import grpc

from shared.domain.jobs import JobState
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import storage
from tests.support.control_service import refused
from tests.support.cut_ways import behind_ways
from tests.support.feeds import all_listed, next_events, next_of, watching
from tests.support.outgoing_events import emit_many

WATCH = {"poll_seconds": 0.1, "keep_alive_seconds": 0.1}


async def test_while_redis_is_away_events_are_listed_and_watched(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with behind_ways(database_url, redis_url, redis_prefix, watch=WATCH) as (control, _, redis):
        await redis.cut()
        watch = watching(control)
        ended = [await storage.job_in(control.transactions, state) for state in list(JobState)[2:]]
        told = [str(each) for each in ended]
        assert [each.aggregate_id for each in await next_events(watch, 3)] == told
        assert [each.aggregate_id for each in await all_listed(control, at_least=3)] == told
        watch.cancel()
        await redis.mend()


async def test_a_watch_outlives_an_outage_of_the_database_and_goes_on_where_it_was(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with behind_ways(database_url, redis_url, redis_prefix, watch=WATCH) as (control, database, _):
        job_id = await storage.a_job(control.transactions)
        await emit_many(control.transactions, job_id, 1, 5)
        watch = watching(control)
        seen = await next_events(watch, 5)
        await database.cut()
        assert (await next_of(watch)).HasField("keep_alive")
        refusal = await refused(control.stub.ListEvents(pb.ListEventsRequest(cursor=seen[-1].cursor)))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "PLATFORM_UNAVAILABLE")
        await emit_many(control.transactions, job_id, 6, 9)
        await database.mend()
        rest = await next_events(watch, 4)
        watch.cancel()
        async with asyncio.timeout(20):
            assert (await all_listed(control, at_least=9)) == [*seen, *rest]
