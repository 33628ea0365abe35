"""The blocking client on a real connection: watches that break, uploads, time that runs out."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import grpc
import pytest
from grpc_status import rpc_status

from job_api.client import CallFailed, Client, JobEvent, JobEventKind, JobId, Progress, TimeOver, errors
from job_api.client.calls import Pace
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.rpc.status import rich_status
from tests.support.scripted_control import JOB
from tests.support.scripted_streams import (
    BREAKS,
    CREATED,
    FINISHED,
    STARTED,
    SUCCEEDED,
    Ending,
    ScriptedServicer,
    aborting,
    playing,
    quietly,
    serving,
    staying,
)

JOB_ID = JobId(UUID(JOB))


@contextmanager
def connected(servicer: ScriptedServicer, *, timeout: timedelta = timedelta(seconds=5)) -> Iterator[Client]:
    """A client on a real server; its waits are none, for the servicer is never really away."""
    pace = Pace(sleep=lambda _: None)
    with (
        serving(servicer) as address,
        Client.over(grpc.insecure_channel(address), timeout=timeout, pace=pace) as client,
    ):
        yield client


@pytest.mark.parametrize(("last_words", "end"), BREAKS.values(), ids=BREAKS)
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


def test_a_watch_ends_when_its_callers_time_is_over() -> None:
    servicer = playing(([CREATED], staying))
    with connected(servicer) as client:
        updates = client.watch(JOB_ID, within=timedelta(seconds=0.3))
        next(updates)
        with pytest.raises(TimeOver, match="goes on"):
            next(updates)

        assert servicer.left.wait(5)


def test_a_closed_client_says_so() -> None:
    with connected(playing()) as client:
        client.close()
        with pytest.raises(CallFailed, match="the client is closed"):
            client.get(JOB_ID)
