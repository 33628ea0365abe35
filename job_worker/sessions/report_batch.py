"""Gathers reports, and commits together what gathered while the last ones were being committed.

A report that comes while nothing is being committed is committed at once; under load many share a
transaction. Several batches may be under way, so that one slow projector does not hold up everybody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from job_worker.operations.project_results import ProjectResults
from job_worker.operations.reports import GiveBack, GiveBackReason, Report, ReportAnswer
from job_worker.sessions.cancel_push import CancelPush
from job_worker.sessions.heartbeat_batch import HeartbeatBatch
from job_worker.sessions.piece_batch import PieceBatch
from shared.domain.errors import PlatformUnavailable
from shared.domain.leases import LeaseRef

REPORTS_MAX = 200
"""Of one batch: a transaction of some ten milliseconds."""
BYTES_MAX = 8 * 1024 * 1024
"""Of the outputs in one batch; at least one is taken, whatever its size."""
WAITING_REPORTS_MAX = 4_000
WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Executors are not listened to while more than this waits."""
LANES = 2
"""Batches under way at a time."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A report that is to be answered; `failed` is told, if it is there, that the database is away."""

    report: Report
    answered: Callable[[ReportAnswer], None]
    failed: Callable[[PlatformUnavailable], None] | None = None


class ReportBatch:
    """Reports wait here until they are durable; one that waits is not forgotten while the database is away.

    Attributes:
        added: One for each lane; set when there is something to commit.
    """

    def __init__(
        self,
        project_results: ProjectResults,
        *,
        pieces: PieceBatch,
        heartbeats: HeartbeatBatch,
        cancels: CancelPush,
    ) -> None:
        self.added = tuple(asyncio.Event() for _ in range(LANES))
        self._project_results = project_results
        self._pieces = pieces
        self._heartbeats = heartbeats
        self._cancels = cancels
        self._waiting = deque[_Waiting]()
        self._bytes = 0
        self._reports_max = REPORTS_MAX
        self._room = asyncio.Event()
        self._room.set()

    def add(self, reports: Sequence[Report], answered: Callable[[ReportAnswer], None]) -> None:
        """Take in reports; each is answered once it is durable."""
        self._add([_Waiting(each, answered) for each in reports])

    async def answer_of(self, report: Report) -> ReportAnswer:
        """Commit a report that came without a session, and return its answer.

        Raises:
            PlatformUnavailable: It may or may not be durable; calling again is safe.
        """
        answer = asyncio.get_running_loop().create_future()

        def answered(given: ReportAnswer) -> None:
            if not answer.done():
                answer.set_result(given)

        def failed(error: PlatformUnavailable) -> None:
            if not answer.done():
                answer.set_exception(error)

        self._add([_Waiting(report, answered, failed)])
        given: ReportAnswer = await answer
        return given

    def give_back_undelivered(self, leases: Sequence[LeaseRef]) -> None:
        """Give back leases that could not be handed over."""
        end = GiveBack(GiveBackReason.UNDELIVERED)
        self.add([Report(each, end) for each in leases], _unheard)

    async def room(self) -> None:
        """Wait until there is room for more."""
        await self._room.wait()

    async def step(self) -> bool:
        """Commit one batch and answer it; True if more waits.

        If the database is away the reports wait on. Half as many are tried next, so that a report which
        keeps failing for nobody's fault holds up no others in the end.
        """
        batch = self._next()
        if not batch:
            return False
        try:
            await self._pieces.flush({each.report.lease for each in batch})
            await self._cancels.record(each.report.lease for each in batch)
            answers = await self._project_results([each.report for each in batch])
        except PlatformUnavailable as error:
            self._reports_max = max(1, len(batch) // 2)
            self._put_back(batch, error)
            raise
        self._reports_max = REPORTS_MAX
        for waiting, answer in zip(batch, answers, strict=True):
            waiting.answered(answer)
        return bool(self._waiting)

    def _add(self, waiting: Sequence[_Waiting]) -> None:
        self._heartbeats.drop(each.report.lease for each in waiting)
        self._waiting.extend(waiting)
        self._bytes += sum(each.report.weight for each in waiting)
        if len(self._waiting) > WAITING_REPORTS_MAX or self._bytes > WAITING_BYTES_MAX:
            self._room.clear()
        for lane in self.added:
            lane.set()

    def _next(self) -> list[_Waiting]:
        batch, left = list[_Waiting](), BYTES_MAX
        while self._waiting and len(batch) < self._reports_max:
            left -= self._waiting[0].report.weight
            if batch and left < 0:
                break
            batch.append(self._waiting.popleft())
        self._bytes -= sum(each.report.weight for each in batch)
        if len(self._waiting) <= WAITING_REPORTS_MAX // 2 and self._bytes <= WAITING_BYTES_MAX // 2:
            self._room.set()
        return batch

    def _put_back(self, batch: Sequence[_Waiting], error: PlatformUnavailable) -> None:
        for each in batch:
            if each.failed is not None:
                each.failed(error)
            else:
                self._waiting.append(each)
                self._bytes += each.report.weight


def _unheard(_: ReportAnswer) -> None:
    """Nobody waits for this answer."""
