"""What can be asked of JobControl, as values: the method, the request, and how the answer is read.

Both clients send what is made here, so what they ask and what they understand is written once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from job_api.client import convert
from job_api.client.views import (
    ArtifactView,
    AttemptView,
    DefinitionView,
    JobView,
    ShownJobView,
    Update,
)
from job_api.client.watching import Stream
from shared.domain.identity import JobId
from shared.domain.jobs import Target
from shared.gen.baton.v1 import job_control_pb2 as pb

PAGE_SIZE_MAX = 1_000
"""As many as the service lists in one page."""

Answer = TypeVar("Answer")
View = TypeVar("View")

Input = Mapping[str, Any] | bytes
"""An input document; bytes are JSON text and sent as they are."""


@dataclass(frozen=True, slots=True)
class Ask(Generic[Answer]):
    """One call that is safe to repeat as it is.

    Attributes:
        method: Its name in the contract.
        read: Makes a view of the response.
    """

    method: str
    request: Message
    read: Callable[[Any], Answer]


@dataclass(frozen=True, slots=True)
class Page(Generic[View]):
    """A page of a list, and what to ask for next; an empty token means that it was the last."""

    views: Sequence[View]
    next_page_token: str


Listing = Callable[[str], Ask[Page[View]]]
"""Makes the call for the page of a token; the first one's is empty."""


class JobOptions(TypedDict, total=False):
    """What may be said about a new job besides its type and input; everything may be left out.

    Attributes:
        idempotency_key: 8 to 128 visible ASCII characters. Without one, a key of this call's own makes its
            tries safe, and the next call creates another job.
        target: What it is about.
        priority: 0 first to 100 last; the definition's if it is left out.
        run_time: When it may start; aware.
        start_by_time: It is cancelled if it has not started by then; aware.
        owner: Whom to create it for, where the caller may.
    """

    idempotency_key: str | None
    target: Target | None
    priority: int | None
    labels: Mapping[str, str] | None
    run_time: datetime | None
    start_by_time: datetime | None
    owner: str


def create_job(job_type: str, input: Input, options: JobOptions) -> Ask[JobView]:
    """Create a job under a key, the caller's or one of its own."""
    require_known(JobOptions, options)
    priority = options.get("priority")
    request = pb.CreateJobRequest(
        job_type=job_type,
        input=input if isinstance(input, bytes) else json_text(input),
        idempotency_key=options.get("idempotency_key") or uuid.uuid4().hex,
        target=convert.target_message(options.get("target")),
        run_time=timestamp(options.get("run_time")),
        start_by_time=timestamp(options.get("start_by_time")),
        overrides=pb.JobOverrides(priority=priority) if priority is not None else None,
        labels=options.get("labels"),
        owner=options.get("owner", ""),
    )
    return Ask("CreateJob", request, convert.created_view)


def get_job(job_id: JobId) -> Ask[ShownJobView]:
    return Ask("GetJob", pb.GetJobRequest(job_id=str(job_id)), convert.shown_view)


def cancel_job(job_id: JobId) -> Ask[JobView]:
    return Ask("CancelJob", pb.CancelJobRequest(job_id=str(job_id)), lambda told: convert.job_view(told.job))


def retry_job(job_id: JobId, idempotency_key: str | None) -> Ask[JobView]:
    """Run a job again under a key, the caller's or one of its own."""
    request = pb.RetryJobRequest(job_id=str(job_id), idempotency_key=idempotency_key or uuid.uuid4().hex)
    return Ask("RetryJob", request, convert.created_view)


def get_output(job_id: JobId) -> Ask[Any]:
    request = pb.GetJobOutputRequest(job_id=str(job_id))
    return Ask("GetJobOutput", request, lambda told: convert.json_value(told.output))


def list_attempts(job_id: JobId) -> Listing[AttemptView]:
    request = pb.ListAttemptsRequest(job_id=str(job_id))
    return listing("ListAttempts", request, "attempts", convert.attempt_view)


def list_artifacts(job_id: JobId, *, content: bool) -> Listing[ArtifactView]:
    request = pb.ListArtifactsRequest(job_id=str(job_id), page_size=PAGE_SIZE_MAX, include_content=content)
    return listing("ListArtifacts", request, "artifacts", convert.artifact_view)


def list_definitions() -> Listing[DefinitionView]:
    request = pb.ListJobDefinitionsRequest()
    return listing("ListJobDefinitions", request, "definitions", convert.definition_view)


def watch_job(job_id: JobId, *, after: int, cursor: str) -> Stream[Update]:
    first = pb.WatchJobRequest(job_id=str(job_id), after_event_number=after, cursor=cursor)

    def behind(cursor: str) -> pb.WatchJobRequest:
        return pb.WatchJobRequest(job_id=str(job_id), cursor=cursor)

    return Stream("WatchJob", first, behind, convert.update)


def paged(method: str, request: Message, read: Callable[[Any], Page[View]]) -> Listing[View]:
    """Make the calls for the pages of a request, which is the first one's."""

    def page(token: str) -> Ask[Page[View]]:
        asked: Any = type(request)()
        asked.CopyFrom(request)
        asked.page_token = token
        return Ask(method, asked, read)

    return page


def listing(method: str, request: Message, field: str, view: Callable[[Any], View]) -> Listing[View]:
    """Make the calls for a list; a field of their answers holds what is listed."""
    return paged(
        method,
        request,
        lambda told: Page([view(each) for each in getattr(told, field)], told.next_page_token),
    )


def json_text(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def require_known(kind: type, given: Mapping[str, object]) -> None:
    """Refuse words that a filter or options do not have: without them, more would be meant than was said.

    Raises:
        TypeError: There is one.
    """
    known = kind.__annotations__
    for word in given:
        if word not in known:
            raise TypeError(f"there is no {word!r}; there are {', '.join(known)}")


def timestamp(time: datetime | None) -> Timestamp | None:
    """None stays None; a ValueError refuses a time without a zone."""
    if time is None:
        return None
    if time.tzinfo is None:
        raise ValueError("points in time need a zone")
    timestamp = Timestamp()
    timestamp.FromDatetime(time)
    return timestamp
