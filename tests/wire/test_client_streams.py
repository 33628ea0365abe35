"""The blocking client on a real connection: watches that break, uploads, time that runs out."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_status import rpc_status

from job_api.client import CallFailed, Client, JobEvent, JobEventKind, JobId, Progress, errors
from job_api.client.calls import Pace
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_control_pb2_grpc, job_pb2
from shared.rpc.status import rich_status
from tests.support.scripted_control import JOB

JOB_ID = JobId(UUID(JOB))
KINDS = job_pb2.JobEventKind.Name

Ending = Callable[[grpc.ServicerContext], None]
Script = tuple[list[pb.WatchJobResponse], Ending]


class ScriptedServicer(job_control_pb2_grpc.JobControlServicer):
    """Plays one script for each stream that is opened; a further stream is refused."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.asked: list[pb.WatchJobRequest] = []
        self.released = threading.Event()
        self.parts: list[pb.UploadInputRequest] = []

    def WatchJob(self, request: Any, context: Any) -> Iterator[pb.WatchJobResponse]:
        self.asked.append(request)
        messages, end = self._scripts.pop(0)
        yield from messages
        end(context)

    def UploadInput(self, request_iterator: Any, context: Any) -> pb.UploadInputResponse:
        self.parts = list(request_iterator)
        document = b"".join(part.chunk for part in self.parts)
        return pb.UploadInputResponse(
            upload_id=JOB, document_bytes=len(document), sha256=hashlib.sha256(document).hexdigest()
        )

    def GetJob(self, request: Any, context: Any) -> pb.GetJobResponse:
        self.released.wait(10)
        return pb.GetJobResponse()


def playing(*scripts: Script) -> ScriptedServicer:
    return ScriptedServicer(*scripts)  # type: ignore[abstract] # what is not scripted is not called


@contextmanager
def connected(servicer: ScriptedServicer, *, timeout: timedelta = timedelta(seconds=5)) -> Iterator[Client]:
    """A client on a real server; its waits are none, for the servicer is never really away."""
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    job_control_pb2_grpc.add_JobControlServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    pace = Pace(sleep=lambda _: None)
    try:
        with Client.over(grpc.insecure_channel(f"127.0.0.1:{port}"), timeout=timeout, pace=pace) as client:
            yield client
    finally:
        servicer.released.set()
        server.stop(grace=1).wait()


def event(number: int, kind: job_pb2.JobEventKind.ValueType) -> pb.WatchJobResponse:
    told = job_pb2.JobEvent(
        job_id=JOB, number=number, kind=kind, state=job_pb2.JOB_STATE_RUNNING, event_time=Timestamp(seconds=1)
    )
    return pb.WatchJobResponse(event=told, cursor=f"after-{number}")


def ended(reason: pb.WatchEndReason.ValueType) -> pb.WatchJobResponse:
    return pb.WatchJobResponse(ended=pb.WatchEnded(reason=reason))


def quietly(context: grpc.ServicerContext) -> None:
    """End the stream with OK, whatever was said before."""


def aborting(code: grpc.StatusCode, message: str = "") -> Ending:
    return lambda context: context.abort(code, message)


CREATED = event(1, job_pb2.JOB_EVENT_KIND_CREATED)
STARTED = event(2, job_pb2.JOB_EVENT_KIND_STARTED)
SUCCEEDED = event(3, job_pb2.JOB_EVENT_KIND_SUCCEEDED)
FINISHED = ended(pb.WATCH_END_REASON_FINISHED)


@pytest.mark.parametrize(
    ("last_words", "end"),
    [
        ([], quietly),
        ([], aborting(grpc.StatusCode.UNAVAILABLE, "going away")),
        ([], aborting(grpc.StatusCode.CANCELLED)),
        ([], aborting(grpc.StatusCode.INTERNAL, "Received RST_STREAM with error code 2")),
        ([ended(pb.WATCH_END_REASON_SLOW)], quietly),
        ([ended(pb.WATCH_END_REASON_DRAINING)], quietly),
    ],
    ids=["no last word", "unavailable", "cancelled", "reset", "slow", "draining"],
)
def test_a_watch_that_breaks_goes_on_after_its_last_cursor(
    last_words: list[pb.WatchJobResponse], end: Ending
) -> None:
    servicer = playing(([CREATED, STARTED, *last_words], end), ([], end), ([SUCCEEDED, FINISHED], quietly))
    with connected(servicer) as client:
        happened = [update.what for update in client.watch(JOB_ID)]

    assert [each.kind for each in happened if isinstance(each, JobEvent)] == [
        JobEventKind.CREATED,
        JobEventKind.STARTED,
        JobEventKind.SUCCEEDED,
    ]
    assert [each.cursor for each in servicer.asked] == ["", "after-2", "after-2"]


def test_a_watch_starts_where_it_is_told_and_passes_over_signs_of_life() -> None:
    progress = pb.WatchJobResponse(
        progress=pb.JobProgress(attempt=1, progress=40, progress_message="page 2 of 5"), cursor="p"
    )
    alive = pb.WatchJobResponse(keep_alive=pb.KeepAlive())
    servicer = playing(([alive, progress, alive, FINISHED], quietly))
    with connected(servicer) as client:
        updates = list(client.watch(JOB_ID, after=7))

    assert [update.what for update in updates] == [Progress(1, 40, "page 2 of 5")]
    assert [update.cursor for update in updates] == ["p"]
    assert servicer.asked[0].after_event_number == 7


def test_a_watch_of_a_job_that_does_not_exist_is_refused_and_not_asked_for_again() -> None:
    def refuse(context: grpc.ServicerContext) -> None:
        context.abort_with_status(rpc_status.to_status(rich_status(errors.JobNotFound(JOB_ID))))

    servicer = playing(([], refuse))
    with connected(servicer) as client, pytest.raises(errors.JobNotFound):
        list(client.watch(JOB_ID))

    assert len(servicer.asked) == 1


def test_a_bug_of_the_service_ends_a_watch() -> None:
    servicer = playing(([CREATED], aborting(grpc.StatusCode.INTERNAL, "internal error, ref 12")))
    with connected(servicer) as client, pytest.raises(CallFailed, match="ref 12"):
        list(client.watch(JOB_ID))


def test_a_watch_of_a_service_that_stays_away_is_given_up_in_time() -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    pace = Pace(monotonic=lambda: now, sleep=sleep, uniform=lambda: 0.9)
    with (
        Client.over(grpc.insecure_channel("127.0.0.1:1"), pace=pace) as client,
        pytest.raises(CallFailed, match="UNAVAILABLE"),
    ):
        list(client.watch(JOB_ID))

    assert 60 < now < 65


def test_a_watch_that_its_caller_leaves_is_cancelled_at_the_service() -> None:
    watched, left = threading.Event(), threading.Event()

    def until_cancelled(context: grpc.ServicerContext) -> None:
        context.add_callback(left.set)
        watched.set()
        left.wait(10)

    with connected(playing(([CREATED], until_cancelled))) as client:
        updates = client.watch(JOB_ID)
        next(updates)
        assert watched.wait(5)
        updates.close()  # type: ignore[attr-defined]

        assert left.wait(5)


def test_a_closed_client_ends_its_watches() -> None:
    left = threading.Event()

    def late(_: grpc.ServicerContext) -> None:
        left.wait(10)

    with connected(playing(([CREATED], late))) as client:
        updates = client.watch(JOB_ID)
        next(updates)
        client.close()
        with pytest.raises(CallFailed, match="CANCELLED"):
            next(updates)
        left.set()


def test_a_file_is_uploaded_whole_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(bytes(range(256)) * 3_000)
    servicer = playing()
    with connected(servicer) as client:
        upload = client.upload(path, media_type="application/pdf")

    header, *chunks = servicer.parts
    assert (header.header.file_name, header.header.media_type) == ("report.pdf", "application/pdf")
    assert [part.HasField("chunk") for part in chunks] == [True] * 3
    assert upload.document_bytes == 768_000
    assert upload.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_empty_document_and_one_in_memory_can_be_uploaded_too() -> None:
    with connected(playing()) as client:
        assert client.upload(b"").document_bytes == 0
        assert client.upload(b"# A title", file_name="a.md").document_bytes == 9


def test_a_file_that_is_not_there_is_no_failed_call(tmp_path: Path) -> None:
    with connected(playing()) as client, pytest.raises(FileNotFoundError):
        client.upload(tmp_path / "nothing.txt")


def test_a_service_that_does_not_answer_is_given_up_at_the_deadline() -> None:
    with (
        connected(playing(), timeout=timedelta(seconds=0.2)) as client,
        pytest.raises(CallFailed, match="DEADLINE_EXCEEDED"),
    ):
        client.get(JOB_ID)
