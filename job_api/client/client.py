"""A small blocking client of JobControl."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from job_api.client import convert, uploads
from job_api.client.calls import Calls, Pace
from job_api.client.views import ArtifactView, AttemptView, DefinitionView, JobView, Update, Upload
from job_api.client.watching import Watch
from shared.domain.identity import JobId
from shared.domain.jobs import JobState, Target
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from shared.rpc.channel import call_metadata, channel_options

TIMEOUT = timedelta(seconds=10)
MESSAGE_BYTES_MAX = 16 << 20
"""As much as the service accepts; pages of artifacts end at half of it."""

PAGE_SIZE_MAX = 1_000
"""As many as the service lists in one page."""

_RECONNECT = (
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),  # the default is two minutes, longer than anyone waits
)


class Client:
    """Creates, shows, watches and cancels jobs; safe to use from many threads, not after a fork.

    Every method may raise an error of the engine by its reason (`BatonError`), or `CallFailed`; nothing of
    gRPC leaves this class. What is safe to repeat is repeated while the service is out of reach, within
    `timeout` for each call.
    """

    def __init__(self, address: str, *, token: str | None = None, timeout: timedelta = TIMEOUT) -> None:
        options = [*channel_options(message_bytes_max=MESSAGE_BYTES_MAX), *_RECONNECT]
        self._open(grpc.insecure_channel(address, options=options), token, timeout, Pace())

    @classmethod
    def over(
        cls,
        channel: grpc.Channel,
        *,
        token: str | None = None,
        timeout: timedelta = TIMEOUT,
        pace: Pace = Pace(),  # noqa: B008 - it is frozen
    ) -> Client:
        """Make a client that uses a channel of the caller's, for TLS or tests, and closes it at its end."""
        client = cls.__new__(cls)
        client._open(channel, token, timeout, pace)
        return client

    def _open(self, channel: grpc.Channel, token: str | None, timeout: timedelta, pace: Pace) -> None:
        self._channel = channel
        self._calls = Calls(channel, metadata=call_metadata(token), timeout=timeout, pace=pace)
        self._closed = False

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and every watch with it. Idempotent."""
        self._closed = True
        self._channel.close()

    def create_job(
        self,
        job_type: str,
        input: Mapping[str, Any] | bytes,
        *,
        idempotency_key: str | None = None,
        target: Target | None = None,
        priority: int | None = None,
        labels: Mapping[str, str] | None = None,
        run_time: datetime | None = None,
        start_by_time: datetime | None = None,
        owner: str = "",
    ) -> JobView:
        """Create a job, or find the one that an earlier call with the same key created.

        Args:
            input: The input document; bytes are JSON text and sent as they are.
            idempotency_key: 8 to 128 visible ASCII characters. Without one, a key of this call's own makes
                its tries safe, and the next call creates another job.
            priority: 0 first to 100 last; None for the definition's.
            run_time: When it may start; aware.
            start_by_time: It is cancelled if it has not started by then; aware.
            owner: Whom to create it for, where the caller may.
        """
        request = pb.CreateJobRequest(
            job_type=job_type,
            input=input if isinstance(input, bytes) else _json_text(input),
            idempotency_key=idempotency_key or uuid.uuid4().hex,
            target=job_pb2.Target(type=target.type, id=target.id) if target else None,
            run_time=_timestamp(run_time),
            start_by_time=_timestamp(start_by_time),
            overrides=pb.JobOverrides(priority=priority) if priority is not None else None,
            labels=labels,
            owner=owner,
        )
        response = self._calls.unary(self._calls.stub.CreateJob, request)
        return convert.job_view(response.job, replayed=response.replayed)

    def upload(self, document: Path | bytes, *, media_type: str = "", file_name: str = "") -> Upload:
        """Store a document for an input to refer to; a path gives the file's name where none is given.

        Raises:
            OSError: The file can't be read.
        """
        return uploads.upload(self._calls, document, media_type=media_type, file_name=file_name)

    def get(self, job_id: JobId) -> JobView:
        request = pb.GetJobRequest(job_id=str(job_id))
        return convert.job_view(self._calls.unary(self._calls.stub.GetJob, request).job)

    def list(
        self,
        *,
        states: Collection[JobState] = (),
        job_type: str = "",
        queue: str = "",
        labels: Mapping[str, str] | None = None,
        page_size: int = 0,
    ) -> Iterator[JobView]:
        """Yield jobs that fit, newest first; each page is asked for when it is needed."""
        filter_ = pb.JobFilter(
            states=[convert.state_number(each) for each in states],
            job_type=job_type,
            queue=queue,
            labels=labels,
        )
        for page in _pages(
            lambda token: self._calls.unary(
                self._calls.stub.ListJobs,
                pb.ListJobsRequest(filter=filter_, page_size=page_size, page_token=token),
            )
        ):
            yield from map(convert.job_view, page.jobs)

    def cancel(self, job_id: JobId) -> JobView:
        """Ask a job to stop; once this returns, it never becomes SUCCEEDED."""
        request = pb.CancelJobRequest(job_id=str(job_id))
        return convert.job_view(self._calls.unary(self._calls.stub.CancelJob, request).job)

    def watch(self, job_id: JobId, *, after: int = 0, cursor: str = "") -> Iterator[Update]:
        """Yield what happens to a job, up to its terminal event; resumes by itself when a stream breaks.

        Args:
            after: Start after the event of this number; 0 is from the beginning.
            cursor: Start after this update of an earlier watch; `after` does not count then.
        """
        request = pb.WatchJobRequest(job_id=str(job_id), after_event_number=after, cursor=cursor)
        return Watch(self._calls, request, is_closed=lambda: self._closed).updates()

    def output(self, job_id: JobId) -> Any:
        """Return a job's output; None if it has not succeeded or its definition keeps none."""
        request = pb.GetJobOutputRequest(job_id=str(job_id))
        return convert.json_value(self._calls.unary(self._calls.stub.GetJobOutput, request).output)

    def attempts(self, job_id: JobId) -> Iterator[AttemptView]:
        """Yield a job's attempts, first to last."""
        for page in _pages(
            lambda token: self._calls.unary(
                self._calls.stub.ListAttempts,
                pb.ListAttemptsRequest(job_id=str(job_id), page_token=token),
            )
        ):
            yield from map(convert.attempt_view, page.attempts)

    def artifacts(self, job_id: JobId, *, content: bool = False) -> Iterator[ArtifactView]:
        """Yield a job's artifacts in order, with their content where asked for."""
        for page in _pages(
            lambda token: self._calls.unary(
                self._calls.stub.ListArtifacts,
                pb.ListArtifactsRequest(
                    job_id=str(job_id), page_size=PAGE_SIZE_MAX, page_token=token, include_content=content
                ),
            )
        ):
            yield from map(convert.artifact_view, page.artifacts)

    def definitions(self) -> Iterator[DefinitionView]:
        """Yield the job types that can be asked for, by name."""
        for page in _pages(
            lambda token: self._calls.unary(
                self._calls.stub.ListJobDefinitions, pb.ListJobDefinitionsRequest(page_token=token)
            )
        ):
            yield from map(convert.definition_view, page.definitions)


class _Page(Protocol):
    @property
    def next_page_token(self) -> str: ...


Page = TypeVar("Page", bound=_Page)


def _pages(ask: Callable[[str], Page]) -> Iterator[Page]:
    page = ask("")
    yield page
    while page.next_page_token:
        page = ask(page.next_page_token)
        yield page


def _json_text(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _timestamp(time: datetime | None) -> Timestamp | None:
    if time is None:
        return None
    if time.tzinfo is None:
        raise ValueError("points in time need a zone")
    timestamp = Timestamp()
    timestamp.FromDatetime(time)
    return timestamp
