"""What is shown together stays small enough for every client, however much there is to say of each job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest

from job_api.rpc.pages import BYTES_MAX
from shared.domain.attempts import AttemptEnd, AttemptOutcome
from shared.domain.identity import Owner
from shared.domain.jobs import JobError
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc
from tests.support import batch_wire, storage
from tests.support.control_service import Control

LONG = JobError("INPUT_BROKEN", "é" * 1_000, "é" * 10_000)
FAILURE = AttemptEnd(AttemptOutcome.FAILED, LONG)
LABELS = {f"{number:02}{'k' * 61}": "ü" * 200 for number in range(32)}
"""As many and as long as they may be."""
ITEMS = 150
"""Some 5 MB."""
BATCHES = 230
"""Some 3.5 MB."""


@pytest.fixture
async def plain(control: Control) -> AsyncIterator[Any]:
    """A stub as other languages make it, without options: it reads messages of 4 MiB."""
    async with grpc.aio.insecure_channel(control.opened.address) as channel:
        yield job_control_pb2_grpc.JobControlStub(channel)


async def walked(ask: Callable[[str], Awaitable[Any]], field: str) -> list[Any]:
    """All pages of a list; there are several, though one would hold so many rows."""
    found, pages, token = list[Any](), 0, ""
    while pages == 0 or token:
        page = await ask(token)
        assert page.ByteSize() < BYTES_MAX + 4_096
        found += getattr(page, field)
        pages, token = pages + 1, page.next_page_token
    assert pages > 1
    return found


async def test_pages_end_before_they_grow_too_large_and_miss_nothing(control: Control, plain: Any) -> None:
    batch = await batch_wire.create(control, ITEMS, labels=LABELS)
    await batch_wire.end(control, batch, dict.fromkeys(range(1, ITEMS + 1), FAILURE))
    batch_id = batch.batch_id

    items = await walked(
        lambda token: plain.ListBatchItems(
            pb.ListBatchItemsRequest(batch_id=batch_id, page_size=1_000, page_token=token)
        ),
        "items",
    )
    jobs = await walked(
        lambda token: plain.ListJobs(pb.ListJobsRequest(page_size=1_000, page_token=token)), "jobs"
    )
    assert [each.number for each in items] == list(range(1, ITEMS + 1))
    assert sorted(each.batch_item for each in jobs) == list(range(1, ITEMS + 1))
    assert all(each.error.internal_message == LONG.internal_message for each in jobs)

    shown = await plain.GetBatch(pb.GetBatchRequest(batch_id=batch_id))
    assert shown.batch.counters.failed == ITEMS
    assert [each.number for each in shown.failed_items] == list(range(1, len(shown.failed_items) + 1))
    assert 0 < len(shown.failed_items) < ITEMS


async def test_a_job_is_shown_with_as_many_of_its_newest_attempts_as_fit(
    control: Control, plain: Any
) -> None:
    job_id = await storage.a_job(control.transactions, owner=Owner("local"))
    retryable = AttemptEnd(AttemptOutcome.GIVEN_BACK, LONG)
    for attempt in range(1, ITEMS + 1):
        lease = await storage.a_lease(control.transactions, job_id=job_id, attempt=attempt)
        await storage.end_attempt(control.transactions, lease.ref, retryable)

    shown = await plain.GetJob(pb.GetJobRequest(job_id=str(job_id)))
    numbers = [each.number for each in shown.attempts]
    assert numbers == list(range(ITEMS - len(numbers) + 1, ITEMS + 1))
    attempts = await walked(
        lambda token: plain.ListAttempts(
            pb.ListAttemptsRequest(job_id=str(job_id), page_size=1_000, page_token=token)
        ),
        "attempts",
    )
    assert [each.number for each in attempts] == list(range(1, ITEMS + 1))


async def test_a_page_of_batches_ends_before_it_grows_too_large(control: Control, plain: Any) -> None:
    created = [await batch_wire.create(control, 1, labels=LABELS) for _ in range(BATCHES)]
    listed = await walked(
        lambda token: plain.ListBatches(pb.ListBatchesRequest(page_size=1_000, page_token=token)), "batches"
    )
    assert [each.batch_id for each in listed] == [each.batch_id for each in reversed(created)]
