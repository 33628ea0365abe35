"""A watch outlives the process that serves it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from job_api.client import BatchEvent, BatchState, Client, JobEvent, JobEventKind
from verification.stage import stack


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    with stack.running(tmp_path_factory.mktemp("watches") / "stack") as running:
        yield running


def test_a_watch_goes_on_over_the_death_of_the_service_without_gap_or_repeat(engine: stack.Stack) -> None:
    numbers: list[int] = []
    kinds: list[JobEventKind] = []
    with Client(engine.control) as client:
        work = {"items": 40, "duration_seconds": 4, "fail_attempts": [1], "fail_after_items": 20}
        job = client.create_job("synthetic", work)
        for update in client.watch(job.job_id):
            if isinstance(update.what, JobEvent):
                numbers.append(update.what.number)
                kinds.append(update.what.kind)
                if update.what.kind is JobEventKind.STARTED:
                    engine.kill("api")
        ended = client.get(job.job_id)

    assert numbers == list(range(1, ended.last_event_number + 1))
    assert kinds.count(JobEventKind.STARTED) == 2
    assert kinds[-1] is JobEventKind.SUCCEEDED


def test_the_watch_of_a_batch_does_so_too(engine: stack.Stack) -> None:
    events: list[BatchEvent] = []
    with Client(engine.control) as client:
        batch = client.create_batch("synthetic", [{"items": 4, "duration_seconds": 2}] * 200)
        for update in client.watch_batch(batch.batch_id):
            if isinstance(update.what, BatchEvent):
                events.append(update.what)
                if update.what.state is BatchState.RUNNING and not update.what.item:
                    engine.kill("api")
        settled = client.batch(batch.batch_id)

    assert [each.number for each in events] == list(range(1, settled.last_event_number + 1))
    assert sorted(each.item for each in events if each.item) == list(range(1, 201))
    assert (settled.state, events[-1].state) == (BatchState.AWAITING_REVIEW, BatchState.AWAITING_REVIEW)
