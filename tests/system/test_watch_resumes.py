"""A watch outlives the process that serves it."""

from __future__ import annotations

from pathlib import Path

from job_api.client import Client, JobEvent, JobEventKind
from verification.stage import stack


def test_a_watch_goes_on_over_the_death_of_the_service_without_gap_or_repeat(tmp_path: Path) -> None:
    numbers: list[int] = []
    kinds: list[JobEventKind] = []
    with stack.running(tmp_path / "stack") as engine, Client(engine.control) as client:
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
