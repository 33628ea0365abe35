"""A session on which nobody has anything to say."""

from __future__ import annotations

import asyncio

import pytest

from shared.domain.jobs import JobState
from tests.support.execution_service import execution_running
from tests.support.executors import an_executor
from verification.peers.cuttable import cuttable

QUIET_SECONDS = 12 * 60
"""More than twice the five minutes after which gRPC's defaults, or a router's table, forget a quiet peer."""


@pytest.mark.prove
@pytest.mark.timeout(QUIET_SECONDS + 120)
async def test_a_session_that_is_quiet_for_twelve_minutes_still_stands_and_brings_a_lease(
    database_url: str, redis_url: str, redis_prefix: str
) -> None:
    async with (
        execution_running(database_url, redis_url, redis_prefix) as execution,
        cuttable(f"tcp://{execution.address}") as way,
        an_executor(way.address) as executor,
    ):
        await execution.until_row("select 1 from executor_sessions")
        done, _ = await asyncio.wait({executor}, timeout=QUIET_SECONDS)
        assert not done
        assert (way.taken, way.open) == (1, 1)
        job_id = await execution.job()
        await execution.until_event(job_id, "succeeded")
        assert (await execution.read(job_id)).state is JobState.SUCCEEDED
        assert way.taken == 1
