"""Live views of jobs that take long to be committed, as those of large batches do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from job_api.loops import live_jobs
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.gen.baton.v1 import batch_pb2
from shared.gen.baton.v1 import job_control_pb2 as pb
from tests.support import batch_wire, storage
from tests.support.blocking import until_blocked
from tests.support.control_service import Control
from tests.support.live_views import begun, shown
from tests.support.watches import PATIENCE_SECONDS

FAILED = AttemptEnd(AttemptOutcome.FAILED, storage.FINAL)
ITEMS = 3
_HOLD_BATCHES = sa.text("lock table batches in share row exclusive mode")


async def created(control: Control, _: batch_pb2.Batch) -> None:
    await batch_wire.create(control, ITEMS)


async def tried_again(control: Control, batch: batch_pb2.Batch) -> None:
    await control.stub.RetryBatchItems(pb.RetryBatchItemsRequest(batch_id=batch.batch_id))


async def queued(view: Any) -> str:
    """The next job that is shown as QUEUED; how others have ended before may be shown still."""
    while True:
        job_id, state = await shown(view)
        if state == "QUEUED":
            return job_id


@pytest.mark.parametrize("made", [created, tried_again])
async def test_jobs_that_are_committed_long_after_later_ones_are_shown(
    control: Control,
    monkeypatch: pytest.MonkeyPatch,
    made: Callable[[Control, batch_pb2.Batch], Coroutine[Any, Any, None]],
) -> None:
    monkeypatch.setattr(live_jobs, "LATE", timedelta(0))
    batch = await batch_wire.create(control, ITEMS)
    await batch_wire.end(control, batch, dict.fromkeys(range(1, ITEMS + 1), FAILED))
    view = await begun(control)
    async with control.transactions.begin() as transaction:
        await transaction.connection.execute(_HOLD_BATCHES)
        making = await until_blocked(control.transactions, made(control, batch))
        later = (await control.create()).job_id
        assert await queued(view) == later
    await making

    async with asyncio.timeout(PATIENCE_SECONDS):
        assert len({await queued(view) for _ in range(ITEMS)}) == ITEMS
    view.cancel()
