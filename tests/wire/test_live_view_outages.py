"""Live views while Redis or Postgres is away."""

from __future__ import annotations

from shared.domain.attempts import AttemptEnd, AttemptOutcome
from tests.support import storage
from tests.support.cut_ways import behind_ways
from tests.support.live_views import begun, next_of, shown

WATCH = {"poll_seconds": 0.1, "keep_alive_seconds": 0.1}
SUCCEEDED = AttemptEnd(AttemptOutcome.SUCCEEDED)


async def test_while_redis_is_away_creations_and_ends_are_shown(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with behind_ways(database_url, redis_url, redis_prefix, watch=WATCH) as (control, _, redis):
        lease = await storage.a_lease(control.transactions)
        await redis.cut()
        view = await begun(control)
        job_id = await storage.a_job(control.transactions)
        assert await shown(view) == (str(job_id), "QUEUED")
        await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
        assert await shown(view) == (str(lease.ref.job_id), "SUCCEEDED")
        view.cancel()
        await redis.mend()


async def test_a_view_outlives_an_outage_of_the_database_and_shows_what_it_missed(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with behind_ways(database_url, redis_url, redis_prefix, watch=WATCH) as (control, database, _):
        lease = await storage.a_lease(control.transactions)
        view = await begun(control)
        await database.cut()
        assert (await next_of(view)).HasField("keep_alive")
        await storage.end_attempt(control.transactions, lease.ref, SUCCEEDED)
        job_id = await storage.a_job(control.transactions)
        await database.mend()
        assert {await shown(view) for _ in range(2)} == {
            (str(lease.ref.job_id), "SUCCEEDED"),
            (str(job_id), "QUEUED"),
        }
        view.cancel()
