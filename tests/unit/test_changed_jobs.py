from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from job_worker.sessions.changed_jobs import WAITING_MAX, ChangedJobs
from shared.domain.identity import JobId


class Hints:
    """Notes what watchers are told."""

    def __init__(self) -> None:
        self.told = list[set[int]]()

    async def jobs_changed(self, job_ids: Collection[JobId]) -> None:
        self.told.append({each.int for each in job_ids})


def jobs(*numbers: int) -> list[JobId]:
    return [JobId(UUID(int=number)) for number in numbers]


async def test_what_changes_between_two_steps_is_told_at_once_and_each_job_once() -> None:
    hints = Hints()
    changed = ChangedJobs(hints)
    changed.note([])
    assert not changed.noted.is_set()
    changed.note(jobs(1, 2))
    changed.note(jobs(2, 3))
    assert changed.noted.is_set()
    await changed.step()
    changed.note(jobs(4))
    await changed.step()
    assert hints.told == [{1, 2, 3}, {4}]


async def test_while_hints_are_slow_no_more_wait_than_there_is_room_for() -> None:
    hints = Hints()
    changed = ChangedJobs(hints)
    for first in range(0, 3 * WAITING_MAX, 100):
        changed.note(jobs(*range(first, first + 100)))
    await changed.step()
    assert [len(each) for each in hints.told] == [WAITING_MAX]
