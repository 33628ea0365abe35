"""`baton watch` without an id, on a service that answers from memory and refuses whoever comes again."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from shared.gen.baton.v1 import job_control_pb2 as pb
from shared.gen.baton.v1 import job_pb2
from tests.support.remembering_control import Service, remembering_control
from tests.support.scripted_control import JOB, a_job


@pytest.fixture
def service() -> Iterator[Service]:
    with remembering_control() as running:
        running.servicer.changes = [
            pb.WatchJobsResponse(
                job=a_job(state=job_pb2.JOB_STATE_RUNNING, attempt=2, progress=40, progress_message="page 2")
            ),
            pb.WatchJobsResponse(keep_alive=pb.KeepAlive()),
            pb.WatchJobsResponse(
                job=a_job(
                    state=job_pb2.JOB_STATE_FAILED,
                    attempt=2,
                    error=job_pb2.JobError(code="INPUT_BROKEN", message="no PDF"),
                ),
                left=True,
            ),
        ]
        yield running


def test_jobs_are_shown_as_they_change_a_line_for_each(service: Service) -> None:
    result = service.run(
        *("watch", "--state", "running", "--type", "synthetic", "--queue", "drill"),
        *("--label", "a=1", "--owner", "ada", "--text", "maths"),
    )

    running, failed = (line.split(maxsplit=1)[1] for line in result.stdout.splitlines())
    assert running == f"{JOB}  synthetic  RUNNING  attempt 2  40 % page 2"
    assert failed == f"{JOB}  synthetic  FAILED  attempt 2  INPUT_BROKEN: no PDF  fits no longer"
    assert result.stderr.splitlines()[0] == "baton: watching; jobs are shown as they change"
    (request,) = service.servicer.viewed
    assert request.filter == pb.JobFilter(
        states=[job_pb2.JOB_STATE_RUNNING],
        job_type="synthetic",
        queue="drill",
        labels={"a": "1"},
        owner="ada",
        text="maths",
    )


def test_each_change_is_a_json_line_for_scripts_and_a_refusal_ends_with_its_code(service: Service) -> None:
    result = service.run("watch", "--json")

    running, failed = map(json.loads, result.stdout.splitlines())
    assert (running["job"]["jobId"], running["job"]["progress"], running["left"]) == (JOB, 40, False)
    assert (failed["job"]["state"], failed["left"]) == ("FAILED", True)
    assert result.exit_code == 6
    assert result.stderr.splitlines()[-1] == "baton: the scope jobs.read is needed (PERMISSION_DENIED)"


@pytest.mark.parametrize(
    "arguments", [(JOB, "--type", "synthetic"), ("--after", "3"), ("--state", "lost"), ("--label", "a")]
)
def test_one_job_or_those_that_fit_are_meant(service: Service, arguments: tuple[str, ...]) -> None:
    assert service.run("watch", *arguments).exit_code == 2
    assert service.servicer.viewed == []
