"""The client for programs of asyncio."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

import grpc

from job_api.client import asks, audit_asks, feed_asks, live_asks, operator_asks, selecting
from job_api.client.asks import Input, JobOptions
from job_api.client.async_batches import AsyncBatchMethods
from job_api.client.async_calls import AsyncCalls, AsyncPace
from job_api.client.audit_asks import AuditFilter, AuditRecordView
from job_api.client.dialling import OPTIONS, TIMEOUT
from job_api.client.gathering import Gathering
from job_api.client.operator_views import (
    ExecutorView,
    OutboxMessageView,
    PauseView,
    QueueView,
    WaitReasonView,
)
from job_api.client.results import JobResult, require_success
from job_api.client.selecting import JobFilter
from job_api.client.tries import require_span
from job_api.client.uploads import Document
from job_api.client.views import (
    ArtifactView,
    AttemptView,
    DefinitionView,
    FeedEventView,
    JobChange,
    JobView,
    ShownJobView,
    Update,
    Upload,
    ViewBegan,
)
from job_api.client.watching import TimeOver
from shared.domain.events import OutboxState
from shared.domain.identity import JobId
from shared.rpc.channel import call_metadata
from shared.rpc.tls import Tls, async_channel


class AsyncClient(AsyncBatchMethods):
    """Runs, creates, shows, watches and cancels jobs, for as many tasks of one event loop as it is given.

    Every method may raise an error of the engine by its reason (`BatonError`), or `CallFailed`; nothing of
    gRPC leaves this class. What is safe to repeat is repeated while the service is out of reach, within
    `timeout` for each call. A task that is cancelled while it waits ends its call at the service, not a job.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        tls: Tls | None = None,
        timeout: timedelta = TIMEOUT,
        gathering: bool = False,
    ) -> None:
        """Dial with the first call.

        Args:
            tls: Dial by TLS, with this; its files are read now.
            gathering: Creations that tasks make at the same moment share calls. One that was sent so is
                created also if its task is cancelled meanwhile.

        Raises:
            StartupFault: A file of `tls` can't be used.
        """
        credentials = tls.credentials() if tls is not None else None
        dial = functools.partial(async_channel, address, credentials, OPTIONS)
        self._open(dial, token, timeout, AsyncPace(), gathering=gathering)

    @classmethod
    def over(
        cls,
        channel: grpc.aio.Channel,
        *,
        token: str | None = None,
        timeout: timedelta = TIMEOUT,
        pace: AsyncPace = AsyncPace(),  # noqa: B008 - it is frozen
        gathering: bool = False,
    ) -> AsyncClient:
        """Make a client that uses a channel of the caller's, and closes it at its end."""
        client = cls.__new__(cls)
        client._open(lambda: channel, token, timeout, pace, gathering=gathering)
        return client

    def _open(
        self,
        dial: Callable[[], grpc.aio.Channel],
        token: str | None,
        timeout: timedelta,
        pace: AsyncPace,
        *,
        gathering: bool,
    ) -> None:
        self._calls = AsyncCalls(dial, metadata=call_metadata(token), timeout=timeout, pace=pace)
        self._gathering = Gathering(self._calls, within=timeout) if gathering else None

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection, and every watch with it. Idempotent."""
        await self._calls.close()
        if self._gathering is not None:
            await self._gathering.ended()

    async def run(
        self,
        job_type: str,
        input: Input,
        *,
        within: timedelta | None = None,
        **options: Unpack[JobOptions],
    ) -> JobResult:
        """Create a job, wait for its end, and return what it made; whoever stops waiting does not stop it.

        With the same key, a repeated run waits for the same job. `within` and errors are those of `result`.
        """
        require_span("within", within)
        job = await self.create_job(job_type, input, **options)
        return await self.result(job.job_id, within=within)

    async def result(self, job_id: JobId, *, within: timedelta | None = None) -> JobResult:
        """Wait for a job's end and return what it made; None for `within` is for as long as it takes.

        Raises:
            JobFailed: It ended FAILED.
            JobCancelled: It ended CANCELLED.
            JobUnfinished: It goes on.
        """
        with contextlib.suppress(TimeOver):
            async for _ in self.watch(job_id, within=within):
                pass
        job = await self.get(job_id)
        require_success(job)
        artifacts = [each async for each in self.artifacts(job_id, content=True)]
        return JobResult(job, await self.output(job_id), artifacts)

    async def create_job(self, job_type: str, input: Input, **options: Unpack[JobOptions]) -> JobView:
        """Create a job, or find the one that an earlier call with the same key created."""
        ask = asks.create_job(job_type, input, options)
        return await (self._gathering.create(ask) if self._gathering is not None else self._calls.ask(ask))

    async def upload(self, document: Path | bytes, *, media_type: str = "", file_name: str = "") -> Upload:
        """Store a document for an input to refer to; a path gives the file's name where none is given.

        Raises:
            OSError: The file can't be read.
        """
        return await self._calls.upload(Document(document, media_type, file_name))

    async def get(self, job_id: JobId) -> ShownJobView:
        """Show a job with its newest attempts, and where its time has gone."""
        return await self._calls.ask(asks.get_job(job_id))

    def list(self, *, page_size: int = 0, **which: Unpack[JobFilter]) -> AsyncIterator[JobView]:
        """Yield jobs that fit, newest first; all of the caller's if nothing is said. Each page is asked for
        when it is needed."""
        return self._calls.each(selecting.list_jobs(which, page_size=page_size))

    async def cancel(self, job_id: JobId) -> JobView:
        """Ask a job to stop; once this returns, it never becomes SUCCEEDED."""
        return await self._calls.ask(asks.cancel_job(job_id))

    async def cancel_jobs(self, *, dry_run: bool = False, **which: Unpack[JobFilter]) -> int:
        """Cancel the jobs that fit, and return how many were; a dry run only counts them.

        Those that `cancel` would refuse are passed over. It is safe to repeat, also if it breaks half-way.
        """
        return sum([each async for each in self._calls.each(selecting.cancel_jobs(which, dry_run=dry_run))])

    async def retry(self, job_id: JobId, *, idempotency_key: str | None = None) -> JobView:
        """Run a FAILED or CANCELLED job again: a new job, which names its origin.

        Without a key, one of this call's own makes its tries safe, and the next call makes another job.
        """
        return await self._calls.ask(asks.retry_job(job_id, idempotency_key))

    async def retry_jobs(self, *, dry_run: bool = False, **which: Unpack[JobFilter]) -> int:
        """Run the FAILED and CANCELLED jobs that fit again, and return how many; a dry run only counts them.

        Those that `retry` would refuse, or that were run again before, are passed over. It is safe to repeat;
        new jobs that have failed meanwhile are then run again, too, unless `created_to` leaves them out.
        A limit of an owner ends it by its error: what runs again until then stays, and asking later goes on.
        """
        return sum([each async for each in self._calls.each(selecting.retry_jobs(which, dry_run=dry_run))])

    def watch(
        self, job_id: JobId, *, after: int = 0, cursor: str = "", within: timedelta | None = None
    ) -> AsyncGenerator[Update, None]:
        """Yield what happens to a job, up to its terminal event; resumes by itself when a stream breaks.

        Args:
            after: Start after the event of this number; 0 is from the beginning.
            cursor: Start after this update of an earlier watch; `after` does not count then.
            within: The time for all of it; `TimeOver` is raised then. None is for as long as it takes.
        """
        return self._calls.watch(asks.watch_job(job_id, after=after, cursor=cursor), within)

    def watch_jobs(self, **which: Unpack[JobFilter]) -> AsyncGenerator[JobChange | ViewBegan, None]:
        """Yield jobs that fit as they change, without end: the latest of each, not every state.

        A `ViewBegan` comes first, and again after a break, which the watch outlives by itself: what changed
        in between is not told, so list anew then.
        """
        return self._calls.watch(live_asks.watch_jobs(which))

    async def output(self, job_id: JobId) -> Any:
        """Return a job's output; None if it has not succeeded or its definition keeps none."""
        return await self._calls.ask(asks.get_output(job_id))

    def attempts(self, job_id: JobId) -> AsyncIterator[AttemptView]:
        """Yield a job's attempts, first to last."""
        return self._calls.each(asks.list_attempts(job_id))

    def artifacts(self, job_id: JobId, *, content: bool = False) -> AsyncIterator[ArtifactView]:
        """Yield a job's artifacts in order, with their content where asked for."""
        return self._calls.each(asks.list_artifacts(job_id, content=content))

    def definitions(self) -> AsyncIterator[DefinitionView]:
        """Yield the job types that can be asked for, by name."""
        return self._calls.each(asks.list_definitions())

    def events(self, *, cursor: str = "", event_types: Collection[str] = ()) -> AsyncIterator[FeedEventView]:
        """Yield events for other services, oldest first, up to the newest; all types if none is named.

        Args:
            cursor: Start after this event; without one, with the oldest that is kept.
        """
        return self._calls.each(feed_asks.list_events(cursor=cursor, event_types=event_types))

    def watch_events(
        self, *, cursor: str = "", event_types: Collection[str] = ()
    ) -> AsyncGenerator[FeedEventView, None]:
        """Yield events as `events` does, and then those that come; resumes by itself when a stream breaks."""
        return self._calls.watch(feed_asks.watch_events(cursor=cursor, event_types=event_types))

    async def explain(self, job_id: JobId) -> Sequence[WaitReasonView]:
        """Return why a job is not running; at least one reason, first the one that must go first."""
        return await self._calls.ask(operator_asks.explain(job_id))

    def executors(self) -> AsyncIterator[ExecutorView]:
        """Yield executors by name, those that are connected and those that were lost lately."""
        return self._calls.each(operator_asks.list_executors())

    def queues(self) -> AsyncIterator[QueueView]:
        """Yield queues by name, with how they are doing."""
        return self._calls.each(operator_asks.list_queues())

    async def pause(
        self, *, queue: str | None = None, job_type: str | None = None, note: str = ""
    ) -> PauseView:
        """Let nothing of a queue or job type start any more; return the pause that stands, the first one."""
        return await self._calls.ask(operator_asks.pause(queue=queue, job_type=job_type, note=note))

    async def resume(self, *, queue: str | None = None, job_type: str | None = None) -> timedelta:
        """Let it start again; return how long it was paused, zero if it was not, or a lost try resumed it."""
        return await self._calls.ask(operator_asks.resume(queue=queue, job_type=job_type))

    def audit_records(self, **which: Unpack[AuditFilter]) -> AsyncIterator[AuditRecordView]:
        """Yield what callers did, newest first; for admins."""
        return self._calls.each(audit_asks.list_audit_records(which))

    def outbox_messages(
        self, state: OutboxState = OutboxState.DEAD, *, page_size: int = 0
    ) -> AsyncIterator[OutboxMessageView]:
        """Yield messages that leave the database, by their state, oldest first."""
        return self._calls.each(operator_asks.list_outbox_messages(state, page_size=page_size))

    async def resend_outbox_messages(self, outbox_ids: Collection[int] | None = None) -> int:
        """Send dead messages again, all of them for None, and return how many are; up to 10,000 in a call.

        A try whose answer was lost may have sent them already: then fewer are counted.
        """
        return await self._calls.ask(operator_asks.resend_outbox_messages(outbox_ids))
