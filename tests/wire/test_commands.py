"""The commands as people and scripts use them, on a service that answers from memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
import typer

from job_api.client import CallFailed, JobId, errors
from job_api.command import show
from job_api.command.exits import ending
from shared.domain.errors import BatonError
from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support.remembering_control import OTHER, Service, an_event, remembering_control
from tests.support.scripted_control import JOB, a_job


@pytest.fixture
def service() -> Iterator[Service]:
    with remembering_control() as running:
        yield running


def test_submit_prints_the_id_and_nothing_else(service: Service) -> None:
    result = service.run("submit", "synthetic", "--input", '{"items": 3}', "--key", "order-4711")

    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{JOB}\n", "")
    assert service.servicer.created[0].input == b'{"items": 3}'
    assert service.servicer.created[0].idempotency_key == "order-4711"


def test_submit_reads_its_input_from_a_file_or_from_stdin(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "input.json"
    path.write_text('{"from": "file"}')
    service.run("submit", "synthetic", "--input", str(path))
    service.run("submit", "synthetic", "--input", "-", stdin='{"from": "stdin"}')

    assert [each.input for each in service.servicer.created] == [b'{"from": "file"}', b'{"from": "stdin"}']


def test_submit_uploads_a_document_and_refers_to_it(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# A title")
    service.run("submit", "document_import", "--document", str(path), "--input", '{"title": "A"}')

    assert service.servicer.uploaded == b"# A title"
    assert json.loads(service.servicer.created[0].input) == {"title": "A", "upload_id": OTHER}


def test_submit_passes_on_priority_labels_and_run_time(service: Service) -> None:
    service.run(
        *("submit", "synthetic", "--priority", "0", "--label", "a=1", "--label", "b="),
        *("--run-at", "2030-01-31T08:00Z"),
    )

    request = service.servicer.created[0]
    assert request.overrides.priority == 0
    assert dict(request.labels) == {"a": "1", "b": ""}
    assert request.run_time.ToJsonString() == "2030-01-31T08:00:00Z"


def test_submit_and_watch_ends_as_the_job_ends(service: Service) -> None:
    service.ends(job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_EVENT_KIND_SUCCEEDED)
    succeeded = service.run("submit", "synthetic", "--watch")
    service.ends(job_pb2.JOB_STATE_FAILED, job_pb2.JOB_EVENT_KIND_FAILED)
    failed = service.run("submit", "synthetic", "--watch")

    assert (succeeded.exit_code, failed.exit_code) == (0, 1)
    lines = succeeded.stdout.splitlines()
    assert lines[:4] == [f"{JOB} created", " 50 %  page 1 of 2", "first line", "second"]
    assert lines[4].endswith("succeeded")


def test_watch_writes_a_json_line_for_each_update(service: Service) -> None:
    service.ends(job_pb2.JOB_STATE_CANCELLED, job_pb2.JOB_EVENT_KIND_CANCELLED)
    result = service.run("watch", JOB, "--json")

    updates = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert updates[0] == {
        "progress": {"attempt": 1, "progress": 50, "progressMessage": "page 1 of 2"},
        "cursor": "a",
    }
    assert updates[-1]["event"] == {
        "jobId": JOB,
        "number": 2,
        "kind": "cancelled",
        "state": "CANCELLED",
        "attempt": 0,
        "eventTime": "1970-01-01T00:00:01Z",
        "outcome": None,
        "error": None,
        "nextAttemptTime": None,
        "forced": False,
    }


def test_get_shows_a_job_with_all_its_parts_as_one_json_document(service: Service) -> None:
    result = service.run("get", JOB, "--attempts", "--artifacts", "--output", "--json")

    told = json.loads(result.stdout)
    assert (told["jobId"], told["state"], told["startTime"]) == (JOB, "QUEUED", None)
    assert told["createTime"] == "2030-03-17T17:46:40Z"
    assert told["attempts"][0]["executorName"] == "executor-1"
    assert told["artifacts"][0]["content"] == {"text": "a"}
    assert told["output"] == {"items": 3}


def test_get_shows_a_job_to_people_without_colours_in_a_pipe(service: Service) -> None:
    service.servicer.job = a_job(
        state=job_pb2.JOB_STATE_FAILED, error=job_pb2.JobError(code="INPUT_BROKEN", message="[red]no PDF")
    )
    result = service.run("get", JOB, "--attempts", "--artifacts")

    assert "INPUT_BROKEN: [red]no PDF" in result.stdout
    assert "knowledge_item" in result.stdout
    assert result.stdout.splitlines()[-1].split() == ["1", "knowledge_item", "1", "a"]
    assert "\x1b" not in result.stdout


def test_get_says_why_a_job_has_no_output(service: Service) -> None:
    service.servicer.output = b""
    service.servicer.job = a_job(state=job_pb2.JOB_STATE_SUCCEEDED)
    assert "not kept; see its artifacts" in service.run("get", JOB, "--output").stdout
    assert json.loads(service.run("get", JOB, "--output", "--json").stdout)["output"] is None
    service.servicer.job = a_job(state=job_pb2.JOB_STATE_RUNNING)
    assert "none, for it has not succeeded" in service.run("get", JOB, "--output").stdout


def test_an_excerpt_of_an_artifact_is_one_short_line() -> None:
    item = {"heading_path": ["Part 1", "Two"], "text": "first\nsecond " * 9, "ordinal": 1}

    assert show.excerpt(item) == "Part 1 > Two: first second first second first second first …"
    assert (show.excerpt(None), show.excerpt([1, 2]), show.excerpt({"text": "a"})) == ("", "[1, 2]", "a")


def test_a_document_that_cannot_be_used_is_told_in_a_sentence(service: Service) -> None:
    missing = service.run("submit", "document_import", "--document", "no/such/file")
    unwanted = service.run("submit", "synthetic", "--document", "pyproject.toml")

    assert missing.stderr == "baton: the document 'no/such/file' can't be read: No such file or directory\n"
    assert unwanted.stderr.startswith("baton: the job type 'synthetic' takes no document")
    assert service.servicer.uploaded == b""


@pytest.mark.parametrize("arguments", [("list", "--json"), ("list",), ("get", JOB), ("watch", JOB, "--json")])
def test_output_that_nobody_reads_ends_the_command_quietly(
    service: Service, arguments: tuple[str, ...]
) -> None:
    service.ends(job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_EVENT_KIND_SUCCEEDED)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "shared.command.main", *arguments],
            env={**os.environ, "BATON_CONTROL_ADDRESS": service.address},
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    finally:
        os.close(writing)

    said = [line for line in done.stderr.splitlines() if "there are more jobs" not in line]
    assert (done.returncode, said) == (141, [])


def test_cancel_says_whether_the_job_has_stopped(service: Service) -> None:
    service.servicer.job = a_job(state=job_pb2.JOB_STATE_RUNNING)
    assert "asked to stop" in service.run("cancel", JOB).stdout
    service.servicer.job = a_job(state=job_pb2.JOB_STATE_CANCELLED)
    assert service.run("cancel", JOB).stdout == f"{JOB} is CANCELLED\n"


@pytest.mark.parametrize(
    ("refusal", "exit_code"),
    [
        (errors.InvalidInput([errors.FieldViolation("input.items", "must be at least 0")]), 2),
        (errors.UnknownJobType("synthetik"), 2),
        (errors.IdempotencyKeyReused(JobId(UUID(JOB))), 4),
        (errors.PermissionDenied("jobs.write"), 6),
        (errors.Unauthenticated(), 6),
        (errors.TooManyJobs(5), 7),
    ],
    ids=lambda value: value.reason if isinstance(value, BatonError) else "",
)
def test_an_error_is_one_line_and_an_exit_code(service: Service, refusal: BatonError, exit_code: int) -> None:
    service.servicer.refusal = refusal
    result = service.run("submit", "synthetic")

    assert result.exit_code == exit_code
    assert result.stderr == f"baton: {refusal.message} ({refusal.reason})\n"
    assert result.stdout == ""


def test_a_job_that_is_not_there_and_one_that_cannot_be_cancelled_are_told_apart(service: Service) -> None:
    service.servicer.refusal = errors.JobAlreadyCancelled(JobId(UUID(JOB)))

    assert service.run("get", OTHER).exit_code == 3
    assert service.run("cancel", JOB).exit_code == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ("get", "no-uuid"),
        ("list", "--state", "DONE"),
        ("submit", "synthetic", "--input", "no/such/file"),
        ("submit", "synthetic", "--label", "no equals sign"),
        ("submit", "synthetic", "--label", "a=1", "--label", "a=2"),
        ("submit", "synthetic", "--run-at", "tomorrow"),
        ("submit", "document_import", "--document", "no/such/file"),
        ("submit", "synthetic", "--document", "pyproject.toml"),
        ("submit", "synthetic", "--priority", "101"),
        ("list", "--address", "localhost"),
        ("list", "--address", "127.0.0.1:99999"),
        ("list", "--address", ":7410"),
        ("cancel", "--state", "FAILED"),
    ],
    ids=" ".join,
)
def test_what_a_person_mistyped_is_exit_code_2(service: Service, arguments: tuple[str, ...]) -> None:
    result = service.run(*arguments)

    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    assert service.servicer.created == []


@pytest.mark.parametrize(
    ("status", "exit_code"), [("UNAVAILABLE", 5), ("DEADLINE_EXCEEDED", 5), ("INTERNAL", 8)]
)
def test_a_call_that_failed_without_a_reason_has_an_exit_code_too(
    status: str, exit_code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as raised, ending():
        raise CallFailed(status, "said the\ntransport")

    assert raised.value.exit_code == exit_code
    assert capsys.readouterr().err.endswith("said the transport\n")


def test_an_address_that_is_another_services_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), ending():
        raise CallFailed("UNIMPLEMENTED", "Method not found!")

    assert "what answers there is no JobControl" in capsys.readouterr().err


def test_ctrl_c_ends_a_watch_and_says_that_the_job_goes_on(service: Service) -> None:
    event = an_event(job_pb2.JOB_EVENT_KIND_CREATED, job_pb2.JOB_STATE_QUEUED)
    service.servicer.updates = [pb.WatchJobResponse(event=event, cursor="a")]
    watching = subprocess.Popen(
        [sys.executable, "-m", "shared.command.main", "watch", JOB, "--json", "--address", service.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=20)

    assert watching.returncode == 130
    assert said.startswith("baton: no longer watching; the job goes on")
    assert len(said.splitlines()) == 1
