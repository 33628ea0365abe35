"""What a live view shows, in short."""

from __future__ import annotations

import asyncio
from typing import Any

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support.control_service import Control
from tests.support.watches import PATIENCE_SECONDS


async def begun(control: Control, metadata: Any = None, **fields: Any) -> Any:
    """Open a view of the jobs that a filter with these fields lets through, and wait until it has begun."""
    request = pb.WatchJobsRequest(filter=pb.JobFilter(**fields))
    view = control.stub.WatchJobs(request, metadata=metadata)
    message = await next_of(view)
    while message.HasField("keep_alive"):
        message = await next_of(view)
    assert message.HasField("began")
    return view


async def next_of(view: Any) -> pb.WatchJobsResponse:
    async with asyncio.timeout(PATIENCE_SECONDS):
        message: pb.WatchJobsResponse = await view.read()
    return message


async def shown(view: Any) -> tuple[str, str]:
    """The next job that is shown and its state, with a `-` before it where the job has left."""
    message = await next_of(view)
    while message.HasField("keep_alive"):
        message = await next_of(view)
    state = job_pb2.JobState.Name(message.job.state).removeprefix("JOB_STATE_")
    return message.job.job_id, f"-{state}" if message.left else state
