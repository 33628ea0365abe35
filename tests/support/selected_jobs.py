"""Calls about all jobs of a filter, and what they leave in the database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support.control_service import Control

REQUESTS = {"CancelJobs": pb.CancelJobsRequest, "RetryJobs": pb.RetryJobsRequest}
SYNTHETIC = pb.JobFilter(job_type="synthetic")


async def call(control: Control, method: str, metadata: Any = (), **fields: Any) -> Any:
    return await getattr(control.stub, method)(REQUESTS[method](**fields), metadata=metadata)


async def count(control: Control, method: str, **fields: Any) -> int:
    """Call until there is no more, and return how many jobs all calls tell of."""
    told: int = 0
    token = ""
    while True:
        response = await call(control, method, page_token=token, **fields)
        told += response.count
        token = response.next_page_token
        if not token:
            return told


async def rows(control: Control, query: str, **parameters: Any) -> list[Any]:
    async with control.transactions.begin() as transaction:
        return list(await transaction.connection.execute(sa.text(query), parameters))
