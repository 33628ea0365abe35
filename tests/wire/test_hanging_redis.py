"""A Redis that hangs: calls that tell of many jobs wait for it no longer than those that tell of one."""

from __future__ import annotations

from job_api.client.dialling import TIMEOUT
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import batch_wire
from tests.support.cut_ways import behind_ways
from verification.peers.cuttable import Direction

MANY = 5_000
"""Their hints are several messages, each of which would be waited for."""
SECONDS = TIMEOUT.total_seconds()


async def test_while_redis_hangs_many_jobs_are_cancelled_within_the_time_of_a_usual_call(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with behind_ways(database_url, redis_url, redis_prefix) as (control, _, redis):
        batch = await batch_wire.create(control, MANY)
        other = await batch_wire.create(control, MANY)
        redis.swallow(Direction.TO_CLIENT)

        request = pb.CancelBatchRequest(batch_id=batch.batch_id)
        cancelled = (await control.stub.CancelBatch(request, timeout=SECONDS)).batch
        of_batch = pb.JobFilter(batch_id=other.batch_id)
        count = (await control.stub.CancelJobs(pb.CancelJobsRequest(filter=of_batch), timeout=SECONDS)).count

        assert batch_wire.counted(cancelled.counters) == f"0/0/0/0/{MANY}"
        assert count == MANY
        redis.heal()
