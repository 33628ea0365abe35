"""What `baton top` shows, read by a few calls at the same moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from job_api.command import show

if TYPE_CHECKING:
    from job_api.client import Client, ExecutorView, JobView, QueueView

LISTED_MAX = 1_000
"""Queues, and executors: a page of each, so that a look costs three calls, however much there is."""
FAILURES_MAX = 20

CALLS = 3

View = TypeVar("View")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How the engine was doing.

    Attributes:
        time: By this machine's clock.
        queues: By name, at most `LISTED_MAX`.
        executors: By name, at most `LISTED_MAX`.
        failures: Of the jobs that were created last and have FAILED, the latest end first.
    """

    time: datetime
    queues: Sequence[QueueView]
    executors: Sequence[ExecutorView]
    failures: Sequence[JobView]

    def to_json(self) -> dict[str, Any]:
        return {
            "time": self.time.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "queues": [each.to_json() for each in self.queues],
            "executors": [each.to_json() for each in self.executors],
            "failures": [each.to_json() for each in self.failures],
        }


def look(client: Client, threads: Executor) -> Snapshot:
    """Ask for everything at the same moment.

    Raises:
        BatonError: What the service said to one of the calls.
        CallFailed: One got no answer.
    """
    from job_api.client import JobState

    queues = threads.submit(_first, client.queues, LISTED_MAX)
    executors = threads.submit(_first, client.executors, LISTED_MAX)
    failures = threads.submit(
        _first, lambda: client.list(states=[JobState.FAILED], page_size=FAILURES_MAX), FAILURES_MAX
    )
    return Snapshot(
        show.now(), queues.result(), executors.result(), sorted(failures.result(), key=_latest_first)
    )


def _first(listing: Callable[[], Iterator[View]], count: int) -> list[View]:
    return list(islice(listing(), count))


def _latest_first(job: JobView) -> float:
    return -(job.finish_time or job.create_time).timestamp()
