"""Runs attempts inside a handler process, as the keeper says, and tells it how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID

import structlog

from job_worker.executor.attempt_end import run_to_end
from job_worker.executor.frame_pipe import GatheredFrames
from job_worker.executor.handler import Document, JobContext
from job_worker.executor.loop_watch import NOBODY, Culprit
from job_worker.executor.piece_flow import PieceFlow
from job_worker.executor.registry import RunnableJob
from job_worker.executor.task_owners import TaskOwners
from job_worker.executor.wording import fitted
from shared.domain.identity import JobId, JobType, LeaseToken
from shared.domain.jobs import JobError
from shared.gen.baton.internal.v1.handler_pipe_pb2 import Ceased, HandlerFrame, KeeperFrame, Work, WorkEnd
from shared.gen.baton.v1.execution_service_pb2 import Lease

PROGRESS_SECONDS = 0.05
"""Progress is gathered so long before it is told: a handler may report each of a million steps."""
_THREADS_FACTOR = 2
"""Threads per attempt, since one that lost its lease may hold its thread until it is killed."""


class Outside:
    """What all attempts of a process know of the world around it."""

    lease_uncertain = False


class Attempt:
    """An attempt inside this process, and the outlet of its context."""

    def __init__(
        self, work: Work, *, plain: bool, frames: GatheredFrames[HandlerFrame], outside: Outside
    ) -> None:
        self.number = work.number
        self.name: Culprit = (work.lease.job_type, work.lease.job_id)
        self.plain = plain
        self.pieces = PieceFlow(work.piece_bytes_max)
        self._loop = asyncio.get_running_loop()
        self._frames = frames
        self._outside = outside
        self._message_characters_max = work.progress_message_characters_max
        self._progress = (0, "")
        self._progress_told = True
        self.ended = False

    @property
    def lease_uncertain(self) -> bool:
        return self._outside.lease_uncertain

    def progress(self, percent: int, message: str) -> None:
        self._progress = (percent, message)
        if self._progress_told:
            self._progress_told = False
            self._loop.call_soon_threadsafe(self._loop.call_later, PROGRESS_SECONDS, self.tell_progress)

    def tell_progress(self) -> None:
        """Tell the latest progress, if it has not been told."""
        if self._progress_told or self.ended:
            return
        self._progress_told = True  # first: a thread may report more from here on
        percent, message = self._progress
        fitting = fitted(message, self._message_characters_max)
        self._frames.frame().progress.add(number=self.number, percent=percent, message=fitting)

    async def piece(self, text: str, cancelled: asyncio.Event) -> None:
        number = await self.pieces.admit(text, cancelled)
        frame = self._frames.frame(len(text))
        frame.pieces.add(number=self.number, piece_number=number, text=text)


class HandlerRunner:
    """All attempts inside this process."""

    def __init__(
        self, frames: GatheredFrames[HandlerFrame], jobs: Mapping[JobType, RunnableJob], *, at_once: int
    ) -> None:
        self._frames = frames
        self._jobs = jobs
        self._threads = ThreadPoolExecutor(at_once * _THREADS_FACTOR, thread_name_prefix="handler")
        self._outside = Outside()
        self._owners = TaskOwners(asyncio.get_running_loop())
        self._running: dict[int, tuple[Attempt, JobContext, asyncio.Task[WorkEnd]]] = {}

    def receive(self, frame: KeeperFrame) -> None:
        """Do what the keeper says."""
        if frame.HasField("lease_uncertain"):
            self._outside.lease_uncertain = frame.lease_uncertain
        for work in frame.starts:
            self._start(work)
        for stored in frame.pieces_stored:
            if stored.number in self._running:
                self._running[stored.number][0].pieces.stored(stored.piece_number)
        for stop in frame.stops:
            self._stop(stop.number)

    def whose(self, task: asyncio.Task[object] | None) -> Culprit:
        """Say whose task this is: if nobody's, that of the only attempt if there is one. For any thread."""
        owner, running = self._owners.of(task), list(self._running.values())
        return running[0][0].name if owner == NOBODY and len(running) == 1 else owner

    def _start(self, work: Work) -> None:
        job = self._jobs[JobType(work.lease.job_type)]
        attempt = Attempt(work, plain=job.plain, frames=self._frames, outside=self._outside)
        context = _context(work, attempt)
        bound = structlog.contextvars.bound_contextvars(
            job_id=work.lease.job_id, job_type=work.lease.job_type, attempt=work.lease.attempt
        )
        with bound, self._owners.owned_by(attempt.name):
            task = asyncio.create_task(run_to_end(job, work, context, self._threads))
        self._running[work.number] = (attempt, context, task)
        task.add_done_callback(partial(self._ended, attempt))

    def _stop(self, number: int) -> None:
        if number not in self._running:
            return
        attempt, context, task = self._running[number]
        if context.cancelled:
            return
        context.cancel()
        attempt.pieces.wake()
        if not attempt.plain:
            task.cancel()

    def _ended(self, attempt: Attempt, task: asyncio.Task[WorkEnd]) -> None:
        attempt.tell_progress()
        attempt.ended = True
        del self._running[attempt.number]
        end = WorkEnd(number=attempt.number, ceased=Ceased()) if task.cancelled() else task.result()
        if end.HasField("success"):
            end.success.piece_count = attempt.pieces.count
            end.success.pieces_hash = attempt.pieces.hash
        self._frames.frame(len(end.success.output)).ends.append(end)


def _context(work: Work, outlet: Attempt) -> JobContext:
    lease = work.lease
    return JobContext(
        job_id=JobId(UUID(lease.job_id)),
        attempt=lease.attempt,
        token=LeaseToken(lease.token),
        time_left=work.time_left.ToTimedelta(),
        outlet=outlet,
        document=_document(lease, work.document),
        last_error=_last_error(lease),
    )


def _document(lease: Lease, content: bytes) -> Document | None:
    if not lease.HasField("document"):
        return None
    return Document(content, lease.document.media_type, lease.document.file_name)


def _last_error(lease: Lease) -> JobError | None:
    if not lease.HasField("last_error"):
        return None
    error = lease.last_error
    return JobError(error.code, error.message, error.internal_message)
